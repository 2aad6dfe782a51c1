"""By when an author's code must have returned."""

from typing import Final

from palestra.transport import CallContext

SHARE_KEPT: Final = 0.2
MOST_KEPT_S: Final = 1.0
"""Of the time left is kept to look where the code is, and to tell the caller."""


def limit_of(context: CallContext) -> float | None:
    """Seconds that a call made now may take; None where there is no deadline."""
    limits = [s for s in (context.remaining_s(), context.call_limit_s) if s is not None]
    if not limits:
        return None
    return min(limits) - min(MOST_KEPT_S, min(limits) * SHARE_KEPT)
