"""What to say about a recorded failure, from the doctor's table."""

from palestra.causes import Signature
from palestra.schema import own_hint


def cause_and_action(signature: Signature | None, hint: str) -> tuple[str, str]:
    """Return the likely cause and the next action: those of the table, else the failure's own hint."""
    return ("", own_hint(hint)) if signature is None else (signature.why, signature.action())
