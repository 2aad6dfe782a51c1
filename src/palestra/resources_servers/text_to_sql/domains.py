"""Which values a column could hold, told from those it holds and from what two queries say.

Nothing is made that a real database would not have there: a date stays a date as the column writes
it, and not in the future where none is; an email address keeps its shape, a flag its two values, a
number its sign and its decimals. Constants of the reference query are believed, since it was
written for this column; those of the other query only where they lie among what is known.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from palestra.resources_servers.text_to_sql.constants import Spoken
from palestra.resources_servers.text_to_sql.declared import KEY_NAME, Column
from palestra.resources_servers.text_to_sql.values import (
    DAY,
    YEAR,
    Closed,
    Domain,
    Moments,
    Number,
    NumberDomain,
    TextDomain,
    around,
    format_of,
    has_a_date,
    moved,
    near,
    read,
)

LARGEST = 2**53
"""Numbers beyond it are left as they are."""
MOST_TIMES_BEYOND = 20
"""How many times larger than what a column holds its values may be."""

_YEARS = 1500, 2100
"""Numbers in between may well be years."""

_BOUNDED = re.compile(
    r"rating|stars?|score|grade|level|priority|month|day|quarter|week|percent|pct"
)
_NEVER_FAR = re.compile(
    _BOUNDED.pattern
    + r"|year|(?:^|_)age|hour|minute|second|gpa|rank|position|type|status|class|kind|ratio|rate"
    r"|share|floor|latitude|longitude|(?:^|_)(?:lat|lng|lon)$|" + KEY_NAME
)
_FUTURE = re.compile(r"due|end|expir|deadline|until|next|schedul|plan|follow|valid")
_FLAGS = (
    {"yes", "no"},
    {"y", "n"},
    {"true", "false"},
    {"t", "f"},
    {"m", "f"},
    {"male", "female"},
    {"on", "off"},
)


_LETTER_CASES: tuple[tuple[Callable[[str], bool], Callable[[str], str]], ...] = (
    (str.istitle, str.title),
    (str.isupper, str.upper),
    (str.islower, str.lower),
    (lambda value: value[:1].isupper(), lambda text: text[:1].upper() + text[1:]),
)
"""What may hold of all of a column's values, and how to write a text so that it does."""


@dataclass(frozen=True, slots=True)
class Said:
    """What both queries say, and when they say it (UTC)."""

    reference: Spoken
    candidate: Spoken
    now: datetime

    @property
    def both(self) -> tuple[Spoken, Spoken]:
        return self.reference, self.candidate


def domain_of(
    column: Column,
    values: Sequence[Any],
    said: Said,
    *,
    is_made_up: bool = False,
    is_unique: bool = False,
) -> Domain:
    """The domain of a column that holds `values`, none of them NULL."""
    if values and all(isinstance(value, int | float) for value in values):
        if _is_flag(column, values):
            return Closed([0, 1])
        if max(map(abs, values)) > LARGEST:
            return Closed(values)
        return _numbers(column, values, said, is_made_up=is_made_up)
    if not values or not all(isinstance(value, str) for value in values):
        return Closed(values)
    written = format_of(values)
    if written is not None:
        return _moments(column, values, said, written)
    return _texts(column, values, said, is_unique=is_unique)


def _is_flag(column: Column, values: Sequence[Any]) -> bool:
    named = re.search(r"^(is|has)_|_?flag$|_?active$|enabled$", column.name.lower())
    declared = "BOOL" in column.declared or column.declared in {"TINYINT(1)", "BIT", "BIT(1)"}
    found = set(values)
    return found <= {0, 1} and bool(named or declared or len(found) > 1)


def _numbers(
    column: Column, values: Sequence[Any], said: Said, *, is_made_up: bool
) -> NumberDomain:
    decimals = _decimals(values)
    low, high = min(values), max(values)
    step: Number = 1 if decimals is None else round(10.0**-decimals, decimals)
    believed = said.reference.numbers(column.name)
    is_bounded = bool(_BOUNDED.search(column.name.lower()))
    points = (
        list(believed) if is_bounded else [n + s for n in believed for s in (0, 0, -step, step)]
    )
    lowest, highest = min([low, *points]), max([high, *points])
    if low >= 0:
        lowest = max(lowest, 0 if low == 0 or 0 in believed else step)
    others = [n + s for n in said.candidate.numbers(column.name) for s in (0, -step, step)]
    others += [n for spoken in said.both for n in spoken.all_numbers()]
    if is_made_up:
        lowest, highest = min([lowest, *others]), max([highest, *others])
    furthest = _furthest(column, low, highest)
    points = [n for n in (*points, *others) if lowest <= n <= furthest]
    if decimals is None:
        points = [int(n) for n in points if n == int(n)]
    else:
        points = [round(float(n), decimals) for n in points]
    return NumberDomain(lowest, highest, furthest, decimals, points)


def _furthest(column: Column, low: Number, high: Number) -> Number:
    """What a column might hold at most: more by far, but for keys, years, scales and shares."""
    is_year = low >= _YEARS[0] and high <= _YEARS[1]
    if low < 0 or high <= 1 or is_year or _NEVER_FAR.search(column.name.lower()):
        return high
    return high * MOST_TIMES_BEYOND


def _decimals(values: Sequence[Any]) -> int | None:
    """How many decimals numbers have; None for whole numbers. A price of 20.0 is one of 20.00."""
    if all(isinstance(value, int) for value in values):
        return None
    written = [f"{value:.6f}".rstrip("0").partition(".")[2] for value in values]
    return max(2, *map(len, written))


def _moments(column: Column, values: Sequence[str], said: Said, written: str) -> Moments:
    held = [read(value, written) for value in values]
    first, last = min(held), max(held)
    if not has_a_date(written):
        spoken = [t for one in said.both for t in one.all_texts() if format_of([t]) == written]
        return Moments(written, first, last, last, [read(text, written) for text in spoken])
    now = said.now.replace(tzinfo=None)
    beyond = max((last - first) / 4, 30 * DAY)
    believed = around(said.reference.all_texts(), said.reference.numbers(column.name))
    earliest = moved(min([first, *believed]), -YEAR)
    furthest = moved(max([last, *believed]), YEAR)
    others = around(said.candidate.all_texts(), said.candidate.numbers(column.name))
    points = [*believed, *(moment for moment in others if earliest <= moment <= furthest)]
    if any(spoken.now for spoken in said.both):
        recent = _recent(column, said)
        points = points * (len(recent) // len(points) + 1 if points else 0) + recent
    latest = max(last, now) if last > now or _FUTURE.search(column.name.lower()) else now
    latest = max(latest, moved(last, beyond)) if latest > now else latest
    return Moments(
        written,
        moved(first, -beyond),
        min(moved(last, beyond), latest),
        latest,
        [moment for moment in points if moment <= latest or moment <= last],
    )


def _recent(column: Column, said: Said) -> list[datetime]:
    texts = [text for spoken in said.both for text in spoken.all_texts()]
    numbers = [n for spoken in said.both for n in spoken.numbers(column.name)]
    before = near(said.now, texts, numbers)
    if not _FUTURE.search(column.name.lower()):
        return before
    now = said.now.replace(tzinfo=None, microsecond=0)
    return [*before, *(now + (now - moment) for moment in before)]


def _texts(column: Column, values: Sequence[str], said: Said, *, is_unique: bool) -> Domain:
    known = {value.casefold() for value in values}
    whole = said.reference.texts(column.name)
    if any(known <= flags for flags in _FLAGS) or all(len(value) <= 1 for value in values):
        return Closed([*dict.fromkeys(values), *(text for text in whole if len(text) <= 10)])
    if any(value[:1] in {"{", "["} for value in values):
        return Closed(list(values))
    shapes = {_shape(value) for value in values}
    is_free = shapes <= {"a"} or any(" " in value for value in values)
    exact = [*whole, *said.candidate.texts(column.name)]
    cased = [f(text) for text in exact for f in (str.lower, str.upper, str.swapcase, str.title)]
    likes = [text for spoken in said.both for text in spoken.likes(column.name)]
    parts = [text for spoken in said.both for text in spoken.parts(column.name)]
    points = [
        text
        for text in (*exact, *exact, *cased, *_written_as(values, likes), *parts)
        if text and (_shape(text) in shapes or (is_free and re.search(r"[^\W\d_]", text)))
    ]
    # Names are written in one way, but for one that is spoken of.
    return TextDomain(points, not is_unique and any(spoken.letter_case for spoken in said.both))


def _written_as(values: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Texts with capital letters where a column's values have them: LIKE would find any."""
    for holds, way in _LETTER_CASES:
        if all(map(holds, values)):
            return [way(text) for text in texts]
    return list(texts)


def _shape(text: str) -> str:
    """Letters as one letter, digits as one digit, the rest as it is."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))
