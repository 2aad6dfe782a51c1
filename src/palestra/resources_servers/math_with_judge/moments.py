"""Times of day and dates, which the library reads as numbers, ratios and differences."""

import re
from collections.abc import Set as AbstractSet
from typing import Final

from palestra.resources_servers.math_with_judge.spelling import words

_HALF_S: Final = 12 * 3600
_TIME = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?(?: ?([ap])\.? ?m\.?)?")
_PRODUCT = re.compile(r"\d[ap]m")
"""What stands together in small letters may be `a` times `m`."""
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")


def same_moment(one: str, other: str) -> bool | None:
    """Whether two times, or two dates, are the same; None when they are none.

    A time that does not say which half of the day it is in may be in either.
    """
    first, second = _plain(one), _plain(other)
    if (date := _same_date(first, second)) is not None:
        return date
    if not (_says_half(one, first) or _says_half(other, second)):
        return None
    times, others = _seconds(first), _seconds(second)
    return None if times is None or others is None else bool(times & others)


def _plain(answer: str) -> str:
    return words(answer.replace("{:}", ":"))


def _same_date(first: str, second: str) -> bool | None:
    dates = [_date(first), _date(second)]
    if all(dates):
        return dates[0] == dates[1]
    # A difference of numbers has no leading zeros.
    surely = [found for found in dates if found and "0" in {found[1][0], found[2][0]}]
    return False if surely else None


def _date(text: str) -> tuple[str, str, str] | None:
    found = _DATE.fullmatch(text)
    if not found or not (1 <= int(found[2]) <= 12 and 1 <= int(found[3]) <= 31):
        return None
    return found[1], found[2], found[3]


def _says_half(answer: str, plain: str) -> bool:
    found = _TIME.fullmatch(plain)
    return bool(found and found[4]) and not _PRODUCT.fullmatch(answer.strip())


def _seconds(text: str) -> AbstractSet[int] | None:
    """Seconds of the day that a text may mean; None when it is no time."""
    found = _TIME.fullmatch(text)
    if not found:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if hour > 24 or minute > 59 or second > 59 or (found[4] and not 1 <= hour <= 12):
        return None
    past = minute * 60 + second
    early = hour % 12 * 3600 + past
    if found[4]:
        return {early + _HALF_S * (found[4] == "p")}
    # After 12 it is clear by itself; 12:30 and 3:30 are not.
    return {hour % 24 * 3600 + past} if hour > 12 or hour == 0 else {early, early + _HALF_S}
