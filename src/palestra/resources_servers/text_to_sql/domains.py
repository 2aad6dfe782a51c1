"""Decide which values a column could hold, from its values and from the constants in two queries.

Only realistic values are made. A date keeps the column's format, and is in the future only if the
column has such dates. An email address keeps its form, a flag its two values, a number its sign and
its decimals. Constants of the reference query are accepted, because the reference was written for
this column. Constants of the other query are accepted only within the range of known values.
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
    Moments,
    Number,
    NumberDomain,
    TextDomain,
    ValueDomain,
    around,
    format_of,
    has_a_date,
    moved,
    near,
    read,
)

LARGEST = 2**53
"""Numbers above this are left unchanged."""
MOST_TIMES_BEYOND = 20
"""How many times larger than a column's values a new value may be."""

_YEARS = 1500, 2100
"""Numbers between these may be years."""

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
"""Letter cases that all values of a column may share, each with the function that writes it."""


@dataclass(frozen=True, slots=True)
class Said:
    """The constants of both queries, and the present time (UTC)."""

    reference: Spoken
    candidate: Spoken
    now: datetime

    @property
    def both(self) -> tuple[Spoken, Spoken]:
        return self.reference, self.candidate


def domain_of(
    column: Column,
    values: Sequence[Any],
    spoken_constants: Said,
    *,
    is_made_up: bool = False,
    is_unique: bool = False,
) -> ValueDomain:
    """Return the domain of a column that contains `values`, none of them NULL."""
    if values and all(isinstance(value, int | float) for value in values):
        if _is_flag(column, values):
            return Closed([0, 1])
        if max(map(abs, values)) > LARGEST:
            return Closed(values)
        return _numbers(column, values, spoken_constants, is_made_up=is_made_up)
    if not values or not all(isinstance(value, str) for value in values):
        return Closed(values)
    written = format_of(values)
    if written is not None:
        return _moments(column, values, spoken_constants, written)
    return _texts(column, values, spoken_constants, is_unique=is_unique)


def _is_flag(column: Column, values: Sequence[Any]) -> bool:
    is_named_flag = re.search(r"^(is|has)_|_?flag$|_?active$|enabled$", column.name.lower())
    declared = "BOOL" in column.declared or column.declared in {"TINYINT(1)", "BIT", "BIT(1)"}
    distinct = set(values)
    return distinct <= {0, 1} and bool(is_named_flag or declared or len(distinct) > 1)


def _numbers(
    column: Column, values: Sequence[Any], spoken_constants: Said, *, is_made_up: bool
) -> NumberDomain:
    decimals = _decimals(values)
    low, high = min(values), max(values)
    step: Number = 1 if decimals is None else round(10.0**-decimals, decimals)
    believed = spoken_constants.reference.numbers(column.name)
    is_bounded = bool(_BOUNDED.search(column.name.lower()))
    points = (
        list(believed) if is_bounded else [n + s for n in believed for s in (0, 0, -step, step)]
    )
    lowest, highest = min([low, *points]), max([high, *points])
    if low >= 0:
        lowest = max(lowest, 0 if low == 0 or 0 in believed else step)
    others = [
        n + s for n in spoken_constants.candidate.numbers(column.name) for s in (0, -step, step)
    ]
    others += [n for spoken in spoken_constants.both for n in spoken.all_numbers()]
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
    """Return the largest value a column could hold: far above `high`, except for keys, years,
    scales and shares.
    """
    is_year = low >= _YEARS[0] and high <= _YEARS[1]
    if low < 0 or high <= 1 or is_year or _NEVER_FAR.search(column.name.lower()):
        return high
    return high * MOST_TIMES_BEYOND


def _decimals(values: Sequence[Any]) -> int | None:
    """Return the number of decimals of the values; None for whole numbers. A float counts as having
    at least two.
    """
    if all(isinstance(value, int) for value in values):
        return None
    written = [f"{value:.6f}".rstrip("0").partition(".")[2] for value in values]
    return max(2, *map(len, written))


def _moments(
    column: Column, values: Sequence[str], spoken_constants: Said, written: str
) -> Moments:
    moments = [read(value, written) for value in values]
    first, last = min(moments), max(moments)
    if not has_a_date(written):
        spoken = [
            t
            for constants in spoken_constants.both
            for t in constants.all_texts()
            if format_of([t]) == written
        ]
        return Moments(written, first, last, last, [read(text, written) for text in spoken])
    now = spoken_constants.now.replace(tzinfo=None)
    beyond = max((last - first) / 4, 30 * DAY)
    believed = around(
        spoken_constants.reference.all_texts(), spoken_constants.reference.numbers(column.name)
    )
    earliest = moved(min([first, *believed]), -YEAR)
    furthest = moved(max([last, *believed]), YEAR)
    others = around(
        spoken_constants.candidate.all_texts(), spoken_constants.candidate.numbers(column.name)
    )
    points = [*believed, *(moment for moment in others if earliest <= moment <= furthest)]
    if any(spoken.now for spoken in spoken_constants.both):
        recent = _recent(column, spoken_constants)
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


def _recent(column: Column, spoken_constants: Said) -> list[datetime]:
    texts = [text for spoken in spoken_constants.both for text in spoken.all_texts()]
    numbers = [n for spoken in spoken_constants.both for n in spoken.numbers(column.name)]
    before = near(spoken_constants.now, texts, numbers)
    if not _FUTURE.search(column.name.lower()):
        return before
    now = spoken_constants.now.replace(tzinfo=None, microsecond=0)
    return [*before, *(now + (now - moment) for moment in before)]


def _texts(
    column: Column, values: Sequence[str], spoken_constants: Said, *, is_unique: bool
) -> ValueDomain:
    folded_values = {value.casefold() for value in values}
    texts = spoken_constants.reference.texts(column.name)
    if any(folded_values <= flags for flags in _FLAGS) or all(len(value) <= 1 for value in values):
        return Closed([*dict.fromkeys(values), *(text for text in texts if len(text) <= 10)])
    if any(value[:1] in {"{", "["} for value in values):
        return Closed(list(values))
    shapes = {_shape(value) for value in values}
    is_free = shapes <= {"a"} or any(" " in value for value in values)
    exact = [*texts, *spoken_constants.candidate.texts(column.name)]
    cased = [f(text) for text in exact for f in (str.lower, str.upper, str.swapcase, str.title)]
    likes = [text for spoken in spoken_constants.both for text in spoken.likes(column.name)]
    parts = [text for spoken in spoken_constants.both for text in spoken.parts(column.name)]
    points = [
        text
        for text in (*exact, *exact, *cased, *_written_as(values, likes), *parts)
        if text and (_shape(text) in shapes or (is_free and re.search(r"[^\W\d_]", text)))
    ]
    # Names are written in one way, but for one that is spoken of.
    return TextDomain(
        points, not is_unique and any(spoken.letter_case for spoken in spoken_constants.both)
    )


def _written_as(values: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Write texts in the letter case of a column's values, because LIKE ignores case."""
    for holds, way in _LETTER_CASES:
        if all(map(holds, values)):
            return [way(text) for text in texts]
    return list(texts)


def _shape(text: str) -> str:
    """Return the shape of a text: letter runs become `a`, digit runs become `9`."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))
