"""`Domain`: the values that a column could hold, and drawing one of them.

Dates and times are texts: in the way in which a column writes them, and near a query's words.
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


Number = int | float

FAR_SHARE = 0.15
"""How many of the numbers that are drawn are far above those there are, where some may be."""


class Domain(Protocol):
    """Values that a column could hold."""

    def another(self, random: Random, held: Any, /) -> Any:
        """A value in place of `held`: one that the queries speak of, one beside it, or a new one."""

    def fresh(self, random: Random, held: Any, /) -> Any:
        """A new value like `held`, for columns in which none comes twice."""


@final
@dataclass(frozen=True, slots=True)
class Closed:
    """No values but those that are known."""

    values: Sequence[Any]

    def another(self, random: Random, held: Any, /) -> Any:
        """One of them."""
        return random.choice(self.values) if self.values else held

    def fresh(self, random: Random, held: Any, /) -> Any:
        """One of them: there is no new one."""
        return self.another(random, held)


@final
@dataclass(frozen=True, slots=True)
class NumberDomain:
    """Numbers from `low` to `high`, a few up to `furthest`, and `points` of interest."""

    low: Number
    high: Number
    furthest: Number
    decimals: int | None
    """None: whole numbers."""
    points: Sequence[Number]

    def another(self, random: Random, _held: Any, /) -> Any:
        """A point, or any number in between."""
        if self.points and random.random() < 0.6:
            return random.choice(self.points)
        is_far = self.furthest > self.high and random.random() < FAR_SHARE
        low, high = (self.high, self.furthest) if is_far else (self.low, self.high)
        if self.decimals is None:
            return random.randint(int(low), int(high))
        return round(random.uniform(low, high), self.decimals)

    def fresh(self, random: Random, _held: Any, /) -> Any:
        """A point, or a number above all others."""
        if self.points and random.random() < 0.3:
            return random.choice(self.points)
        return type(self.high)(self.high + random.randint(1, 100))


@final
@dataclass(frozen=True, slots=True)
class Moments:
    """Dates or times from `first` to `last` as a column writes them, and `points` of interest."""

    written: str
    first: datetime
    last: datetime
    latest: datetime
    """Beyond `last`, no moment is after this: now, unless there are moments of the future."""
    points: Sequence[datetime]

    def another(self, random: Random, held: Any, /) -> str:
        """A point, the same day of another year, or any moment in between."""
        chance = random.random()
        if self.points and chance < 0.6:
            return random.choice(self.points).strftime(self.written)
        if chance < 0.8 and has_a_date(self.written) and isinstance(held, str):
            then = moved(read(held, self.written), random.choice((-2, -1, 1, 2)) * YEAR)
            if then <= self.latest:
                return then.strftime(self.written)
        return self.fresh(random, held)

    def as_far(self, value: str, one: str, other: str) -> str | None:
        """A moment as far from `value` as `other` is from `one`; None beyond the latest."""
        apart = read(other, self.written) - read(one, self.written)
        then = moved(read(value, self.written), apart)
        return then.strftime(self.written) if apart and then <= self.latest else None

    def fresh(self, random: Random, _held: Any, /) -> str:
        """Any moment in between."""
        seconds = int((self.last - self.first).total_seconds())
        return (self.first + random.randint(0, seconds) * SECOND).strftime(self.written)


@final
@dataclass(frozen=True, slots=True)
class TextDomain:
    """Texts of the shape that a column's have; `points` are those that queries speak of."""

    points: Sequence[str]
    changes_case: bool

    def another(self, random: Random, held: Any, /) -> str:
        """A point, the same in other letters, or a new text."""
        chance = random.random()
        if self.points and chance < 0.6:
            return random.choice(self.points)
        if self.changes_case and chance < 0.8:
            return random.choice((str(held).swapcase(), str(held).upper(), str(held).lower()))
        return self.fresh(random, held)

    def fresh(self, random: Random, held: Any, /) -> str:
        """`held` with a few of its letters, or digits where it has them in a code, changed."""
        text = str(held)
        runs = list(re.finditer(r"[^\W\d_]+", text)) or list(re.finditer(r"\d+", text))
        if re.search(r"\d", text) and not re.search(r"[^\W\d_]{3}|@", text):
            runs = list(re.finditer(r"\d+", text))
        if not runs:
            return text
        run = random.choice(runs[:-1] if len(runs) > 1 and "@" in text else runs)
        places = range(run.start() + (len(run[0]) > 1), run.end())
        changed = list(text)
        for place in random.sample(places, min(2, len(places))):
            changed[place] = _like(random, text[place])
        return "".join(changed)


def _like(random: Random, letter: str) -> str:
    if letter.isdigit():
        return random.choice("0123456789")
    made = random.choice("abcdefghijklmnopqrstuvwxyz")
    return made.upper() if letter.isupper() else made
