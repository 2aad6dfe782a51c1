"""What to say about a recorded failure, from the doctor's table."""

from collections.abc import Callable

from palestra.causes import Signature
from palestra.schema import ReverifyCommand, own_hint


def cause_and_action(
    signature: Signature | None,
    message: str,
    hint: str,
    reverify: ReverifyCommand | None,
    advice: Callable[[str], str],
) -> tuple[str, str]:
    """Return the likely cause and the next action: those of the table, else the failure's own hint.

    `message`, `hint`: of the failure. `reverify`: the command that the failure records. `advice`: completes what is said about the run.
    """
    if signature is None:
        return "", advice(own_hint(hint))
    return signature.why, advice(signature.action(signature.fields_in(message), reverify=reverify))
