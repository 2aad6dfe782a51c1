"""Domains: the values that a column could hold, and random draws from them.

Dates and times are texts in the column's own format, near the moments that the queries name.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, Protocol, final

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
    """Return the format in which all values are written; None when there are none or no format
    fits.
    """
    if not values or not all(isinstance(value, str) for value in values):
        return None
    return next((written for written in FORMATS if _all_written(values, written)), None)


def _all_written(values: Sequence[str], written: str) -> bool:
    try:
        return all(read(value, written).strftime(written) == value for value in values)
    except ValueError:
        return False


def read(value: str, written: str) -> datetime:
    """Parse a moment in the column's format. Raises ValueError: it has another format."""
    return datetime.strptime(value, written)  # noqa: DTZ007  # a column's moments have no zone


def moved(moment: datetime, by: timedelta) -> datetime:
    """Return a moment shifted by `by`, within the years that can be written."""
    try:
        return max(moment + by, _EARLIEST)
    except OverflowError:
        return moment


def has_a_date(written: str) -> bool:
    """Whether a format contains a date, not only a time of day."""
    return "%Y" in written


def around(texts: Iterable[str], numbers: Iterable[int | float]) -> list[datetime]:
    """Return moments at and next to the dates in constants: days, and the ends of months and years."""
    years = [str(number) for number in numbers if isinstance(number, int)]
    candidates: list[datetime] = []
    for text in (*texts, *years):
        for match in _WRITTEN.finditer(text):
            candidates += _neighbours(match)
    return candidates


def _neighbours(match: re.Match[str]) -> Iterator[datetime]:
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


def near(now: datetime, texts: Iterable[str], numbers: Iterable[int | float]) -> list[datetime]:
    """Return days before `now`. About half of them lie at distances that the constants state, like
    30 days.
    """
    ages = [*_AGES_IN_DAYS, *_AGES_IN_DAYS_LONG]
    spans = [
        abs(int(amount)) * _DAYS_OF[unit.lower()]
        for text in texts
        for amount, unit in _SPAN.findall(text)
    ]
    spans += [abs(number) * days for number in numbers for days in (1.0, 30.44, 365.25)]
    spans = [span for span in spans if span < _LONGEST_DAYS]
    near_numbers = [
        int(span) + offset for span in spans for offset in (-2, -1, -1, 0, 0, 1, 1, 2, 20)
    ]
    offset = near_numbers * (len(ages) // len(near_numbers) + 1) if near_numbers else []
    at = now.replace(tzinfo=None, microsecond=0)
    return [at - age * DAY for age in (*ages, *offset) if age >= 0]


Number = int | float

FAR_SHARE = 0.15
"""The share of random numbers that are far above the column's own, where this is possible."""


class ValueDomain(Protocol):
    """The values that a column could hold."""

    def another(self, random: Random, current: Any, /) -> Any:
        """Return a random value to replace `current`: one that the queries name, a neighbour, or a
        new one.
        """

    def fresh(self, random: Random, current: Any, /) -> Any:
        """Return a new value like `current`, for columns with unique values."""


@final
@dataclass(frozen=True, slots=True)
class Closed:
    """A domain of only the known values."""

    values: Sequence[Any]

    def another(self, random: Random, current: Any, /) -> Any:
        """Return a random known value."""
        return random.choice(self.values) if self.values else current

    def fresh(self, random: Random, current: Any, /) -> Any:
        """Return a random known value, because no new ones exist."""
        return self.another(random, current)


@final
@dataclass(frozen=True, slots=True)
class NumberDomain:
    """The numbers from `low` to `high`, a few up to `furthest`, and `points` from the queries."""

    low: Number
    high: Number
    furthest: Number
    decimals: int | None
    """The number of decimals; None for whole numbers."""
    points: Sequence[Number]

    def another(self, random: Random, _current: Any, /) -> Any:
        """Return one of `points`, or a random number in the range."""
        if self.points and random.random() < 0.6:
            return random.choice(self.points)
        is_far = self.furthest > self.high and random.random() < FAR_SHARE
        low, high = (self.high, self.furthest) if is_far else (self.low, self.high)
        if self.decimals is None:
            return random.randint(int(low), int(high))
        return round(random.uniform(low, high), self.decimals)

    def fresh(self, random: Random, _current: Any, /) -> Any:
        """Return one of `points`, or a number above `high`."""
        if self.points and random.random() < 0.3:
            return random.choice(self.points)
        return type(self.high)(self.high + random.randint(1, 100))


@final
@dataclass(frozen=True, slots=True)
class Moments:
    """The dates or times from `first` to `last` in the column's format, and `points` from the
    queries.
    """

    written: str
    first: datetime
    last: datetime
    latest: datetime
    """The latest possible moment beyond `last`: the present, or later if the column has moments in
    the future."""
    points: Sequence[datetime]

    def another(self, random: Random, current: Any, /) -> str:
        """Return one of `points`, the same day of another year, or a random moment in the range."""
        chance = random.random()
        if self.points and chance < 0.6:
            return random.choice(self.points).strftime(self.written)
        if chance < 0.8 and has_a_date(self.written) and isinstance(current, str):
            then = moved(read(current, self.written), random.choice((-2, -1, 1, 2)) * YEAR)
            if then <= self.latest:
                return then.strftime(self.written)
        return self.fresh(random, current)

    def as_far(self, value: str, earlier: str, later: str) -> str | None:
        """Return a moment as far from `value` as `later` is from `earlier`; None when it is after
        `latest`.
        """
        apart = read(later, self.written) - read(earlier, self.written)
        then = moved(read(value, self.written), apart)
        return then.strftime(self.written) if apart and then <= self.latest else None

    def fresh(self, random: Random, _current: Any, /) -> str:
        """Return a random moment in the range."""
        seconds = int((self.last - self.first).total_seconds())
        return (self.first + random.randint(0, seconds) * SECOND).strftime(self.written)


@final
@dataclass(frozen=True, slots=True)
class TextDomain:
    """Texts of the same shape as a column's texts; `points`: the texts that the queries name."""

    points: Sequence[str]
    changes_case: bool

    def another(self, random: Random, current: Any, /) -> str:
        """Return one of `points`, `current` in another letter case, or a new text."""
        chance = random.random()
        if self.points and chance < 0.6:
            return random.choice(self.points)
        if self.changes_case and chance < 0.8:
            return random.choice(
                (str(current).swapcase(), str(current).upper(), str(current).lower())
            )
        return self.fresh(random, current)

    def fresh(self, random: Random, current: Any, /) -> str:
        """Return `current` with a few letters changed, or digits if it is a code with digits."""
        text = str(current)
        runs = list(re.finditer(r"[^\W\d_]+", text)) or list(re.finditer(r"\d+", text))
        if re.search(r"\d", text) and not re.search(r"[^\W\d_]{3}|@", text):
            runs = list(re.finditer(r"\d+", text))
        if not runs:
            return text
        run = random.choice(runs[:-1] if len(runs) > 1 and "@" in text else runs)
        positions = range(run.start() + (len(run[0]) > 1), run.end())
        changed = list(text)
        for position in random.sample(positions, min(2, len(positions))):
            changed[position] = _like(random, text[position])
        return "".join(changed)


def _like(random: Random, letter: str) -> str:
    if letter.isdigit():
        return random.choice("0123456789")
    new_letter = random.choice("abcdefghijklmnopqrstuvwxyz")
    return new_letter.upper() if letter.isupper() else new_letter
