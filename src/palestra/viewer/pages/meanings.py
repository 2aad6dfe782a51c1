"""What to say about a recorded failure, from the doctor's table."""

from collections.abc import Callable

from palestra.causes import Signature
from palestra.schema import own_hint


def cause_and_action(
    signature: Signature | None, hint: str, advice: Callable[[str], str]
) -> tuple[str, str]:
    """Return the likely cause and the next action: those of the table, else the failure's own hint.
    `advice`: completes what is said about the run.
    """
    if signature is None:
        return "", advice(own_hint(hint))
    return signature.why, advice(signature.action())
