"""Times of day, in minutes since midnight."""

import re

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_SECONDS = re.compile(r":00(?=\s*(?:[ap]\.?m\.?)?$)", re.IGNORECASE)
_SPOKEN = re.compile(r"(1[0-2]|[1-9])(?::([0-5][0-9]))?\s*([ap])\.?m\.?", re.IGNORECASE)
NOON = 12 * 60


def clock(text: str) -> int | None:
    """`14:05`, or None when it is no time."""
    match = _CLOCK.fullmatch(text.strip())
    return int(match[1]) * 60 + int(match[2]) if match else None


def spoken(text: str) -> int | None:
    """`2:05pm`, `10 am`, `noon`, which is 12pm; or None when it is no time."""
    if text.strip().lower() == "noon":
        return NOON
    match = _SPOKEN.fullmatch(text.strip())
    if match is None:
        return None
    hours = int(match[1]) % 12 + (12 if match[3] in "pP" else 0)
    return hours * 60 + int(match[2] or 0)


def written(text: str) -> int | None:
    """A time as a model may write it: `14:05`, `14:05:00`, `2:05 PM`; or None when it is no time."""
    bare = text.strip()
    if bare.count(":") == 2:
        bare = _SECONDS.sub("", bare)
    time = clock(bare)
    return spoken(bare) if time is None else time
