"""`Domain`: the values that a column could hold, and drawing one of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Protocol, final

from palestra.resources_servers.text_to_sql.moments import SECOND, YEAR, has_a_date, moved, read

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
class Numbers:
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
class Texts:
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
