"""Dates and times as texts: in which way a column writes them, and those near a query's words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

FORMATS: Final = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m",
    "%Y/%m/%d",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%Y%m%d",
    "%H:%M:%S",
    "%H:%M",
)

DAY: Final = timedelta(days=1)
YEAR: Final = 365 * DAY
SECOND: Final = timedelta(seconds=1)
_EARLIEST: Final = datetime(1000, 1, 1)  # noqa: DTZ001  # earlier years have fewer digits
_LONGEST_DAYS: Final = 50_000
_WRITTEN = re.compile(
    r"(?<!\d)((?:1[89]|20|21)\d\d)(?:-(\d\d)(?:-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d))?)?)?)?(?!\d)"
)
_SPAN = re.compile(r"([+-]?\d{1,4})\s*(day|month|year|week|hour)", re.IGNORECASE)
_DAYS_OF: Final = {"day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25, "hour": 1 / 24}
_AGES_IN_DAYS: Final = (0, 1, 2, 3, 5, 6, 7, 8, 13, 14, 15, 20, 28, 29, 30, 31, 32, 45, 59, 61, 75)
_AGES_IN_DAYS_LONG: Final = (89, 90, 91, 92, 120, 179, 183, 184, 200, 300, 364, 365, 366, 367)


def format_of(values: Sequence[Any]) -> str | None:
    """The format in which all values are written, if there is one and they are any."""
    if not values or not all(isinstance(value, str) for value in values):
        return None
    return next((written for written in FORMATS if _all_written(values, written)), None)


def _all_written(values: Sequence[str], written: str) -> bool:
    try:
        return all(read(value, written).strftime(written) == value for value in values)
    except ValueError:
        return False


def read(value: str, written: str) -> datetime:
    """A moment as a column writes it. Raises ValueError."""
    return datetime.strptime(value, written)  # noqa: DTZ007  # a column's moments have no zone


def moved(moment: datetime, by: timedelta) -> datetime:
    """A moment later or earlier, within the years that can be written."""
    try:
        return max(moment + by, _EARLIEST)
    except OverflowError:
        return moment


def has_a_date(written: str) -> bool:
    """Whether a format is of more than a time of day."""
    return "%Y" in written


def around(texts: Iterable[str], numbers: Iterable[int | float]) -> list[datetime]:
    """Moments at and beside what is written in constants: days, and a month's or year's ends."""
    years = [str(number) for number in numbers if isinstance(number, int)]
    found: list[datetime] = []
    for text in (*texts, *years):
        for match in _WRITTEN.finditer(text):
            found += _beside(match)
    return found


def _beside(match: re.Match[str]) -> Iterator[datetime]:
    year, month, day, hour, minute, second = (int(group or 0) for group in match.groups())
    try:
        start = datetime(year, month or 1, day or 1, hour, minute, second)  # noqa: DTZ001
    except ValueError:
        return
    end = start
    if not month:
        end = start.replace(month=12, day=31)
    elif not day:
        end = (start + 31 * DAY).replace(day=1) - DAY
    yield from (start, start - DAY, end, end + DAY)
    if end == start:
        yield start


def in_months(texts: Iterable[str], first: datetime, last: datetime) -> list[datetime]:
    """A moment in each month that is named alone, such as `06`, of the years around."""
    months = {int(text) for text in texts if re.fullmatch(r"0?[1-9]|1[0-2]", text)}
    years = range(max(first.year - 1, 1), min(last.year + 1, 9998) + 1)
    return [datetime(year, month, 11) for month in sorted(months) for year in years]  # noqa: DTZ001


def near(now: datetime, texts: Iterable[str], numbers: Iterable[int | float]) -> list[datetime]:
    """Days before `now`; half of them about as long before it as the constants say."""
    ages = [*_AGES_IN_DAYS, *_AGES_IN_DAYS_LONG]
    spans = [
        abs(int(amount)) * _DAYS_OF[unit.lower()]
        for text in texts
        for amount, unit in _SPAN.findall(text)
    ]
    spans += [abs(number) * days for number in numbers for days in (1.0, 30.44, 365.25)]
    spans = [span for span in spans if span < _LONGEST_DAYS]
    said = [int(span) + more for span in spans for more in (-2, -1, -1, 0, 0, 1, 1, 2, 20)]
    more = said * (len(ages) // len(said) + 1) if said else []
    at = now.replace(tzinfo=None, microsecond=0)
    return [at - age * DAY for age in (*ages, *more) if age >= 0]
