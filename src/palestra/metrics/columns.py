"""Collects the numbers of rows into numpy columns, one per field, block by block."""

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from palestra.schema import (
    CONVERSATION_DIFFERS,
    EMPTY_ANSWER,
    REWARD_COMPONENTS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonObject,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

REWARD = "reward"
RESPONSE = "response"
INDICES = frozenset({TASK_INDEX, ROLLOUT_INDEX, EMPTY_ANSWER, CONVERSATION_DIFFERS})
"""Numbers and booleans in rows that are not measurements."""

LARGEST_EXACT = 2.0**53
"""The largest value up to which a double represents every integer, so that a column can be returned
as integers."""

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_values, _usage = methodcaller("values"), attrgetter("usage")
_NUMERIC = frozenset({float, int, bool})
_NOT_FROM_USAGE = INDICES | {REWARD}


class Nested(msgspec.Struct, gc=False):
    """The fields that are read from an object inside a row: a response's usage and the reason it is
    incomplete, an agent's name and type.
    """

    usage: Any = None
    incomplete_details: Any = None
    name: Any = None
    type: Any = None


Value = bool | int | float | None | str | Nested | list[Any] | dict[str, Any]
Row = dict[str, Value]


class Number(NamedTuple):
    """A number. `whole`: whether it was written as an integer or a boolean."""

    value: float
    whole: bool


def as_number(value: object) -> Number | None:
    """Return a Python value as a number; None when it is not a number or boolean."""
    if isinstance(value, bool | int):
        return Number(_float(value), whole=True)
    if isinstance(value, float):
        return Number(value, whole=False)
    return None


def is_finite_number(value: object) -> bool:
    """Whether a value is a finite number; booleans count as numbers."""
    number = as_number(value)
    return number is not None and math.isfinite(number.value)


@dataclass(frozen=True, slots=True)
class Columns:
    """Numeric fields of rows: one value per row, NaN where a row lacks the field.

    The reward is the first field; the others are sorted by name.
    """

    values: Mapping[str, FloatArray]
    whole: frozenset[str]
    """The fields in which every value is an integer or a boolean."""

    def take(self, rows: IntArray | BoolArray) -> "Columns":
        return Columns({name: column[rows] for name, column in self.values.items()}, self.whole)


def component_fields(columns: Columns) -> dict[str, str]:
    """Return the fields with the components of the reward, by the components' names."""
    prefix = f"{REWARD_COMPONENTS}."
    return {n.removeprefix(prefix): n for n in columns.values if n.startswith(prefix)}


class ColumnBuilder:
    """Builds columns block by block. A field that first appears later is NaN for the earlier rows.

    The numeric fields of a row are its own and those of its `response.usage`; for equal names, the
    row's own value is used. Booleans count as 0 and 1. Values that are not finite count as absent.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[str, array[float]] = {}
        self._fractional: set[str] = {REWARD}
        self.not_finite: dict[str, int] = {}
        """How many values of a field were NaN or infinite."""

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def add(self, fields: Mapping[str, Sequence[Any]], rows: int) -> None:
        """Append `rows` rows with the values `fields`, in the format of `fields_of`."""
        usages = _usages(fields.get(RESPONSE, ()))
        for name, values in usages.items():
            own_values = fields.get(name)
            self._extend(
                name, values if own_values is None else list(map(_first_number, own_values, values))
            )
        for name, values in fields.items():
            if name == REWARD_COMPONENTS:
                for component, parts in _parts(values).items():
                    self._extend(f"{REWARD_COMPONENTS}.{component}", parts)
            elif name not in usages and name not in INDICES:
                self._extend(name, values)
        self._rows += rows

    def build(self) -> Columns:
        names = sorted(self._columns, key=lambda name: (name != REWARD, name))
        values = {name: np.array(self._filled(name)) for name in names}
        inexact = {
            name for name, column in values.items() if np.nanmax(np.abs(column)) > LARGEST_EXACT
        }
        return Columns(values, frozenset(values) - self._fractional - inexact)

    def _extend(self, name: str, values: Sequence[Any]) -> None:
        column = finite(values)
        if column is None:
            if _NUMERIC.isdisjoint(map(type, values)):
                return
            column = self._one_by_one(name, values)
        elif name not in self._fractional and float in set(map(type, values)):
            self._fractional.add(name)
        if name in self._columns or not np.isnan(column).all():
            self._filled(name).extend(column)

    def _one_by_one(self, name: str, values: Sequence[object]) -> "array[float]":
        column = array("d")
        for value in values:
            number = as_number(value)
            if number is None or not math.isfinite(number.value):
                column.append(math.nan)
                if number is not None:
                    self.not_finite[name] = self.not_finite.get(name, 0) + 1
                continue
            column.append(number.value)
            if not number.whole:
                self._fractional.add(name)
        return column

    def _filled(self, name: str) -> "array[float]":
        """Return the column of a field, filled with NaN up to the current row."""
        column = self._columns.setdefault(name, array("d"))
        absent = self._rows - len(column)
        if absent:
            column.extend([math.nan] * absent)
        return column


def can_name_a_field(name: str) -> bool:
    """Whether a msgspec struct can have a field with this name: JSON must not escape any character
    of it.
    """
    return not _ESCAPED.search(name)


def fields_of(rows: Sequence[JsonObject]) -> dict[str, Sequence[Any]]:
    """Return, for each field, its value in each row; None where a row lacks it."""
    layouts = set(map(tuple, rows))
    if len(layouts) == 1:
        # rows of one environment mostly look alike, and then this is the fast way
        (names,) = layouts
        return dict(zip(names, zip(*map(_values, rows), strict=True), strict=True))
    return {
        name: [row.get(name) for row in rows]
        for name in dict.fromkeys(chain.from_iterable(layouts))
    }


def _usages(responses: Sequence[object]) -> dict[str, Sequence[Any]]:
    """Return the fields of `response.usage`, in the format of `fields_of`."""
    try:
        usages: list[Any] = list(map(_usage, responses))
    except AttributeError:  # a row without a response, or one that is wholly decoded
        usages = list(map(_usage_of, responses))
    if set(map(type, usages)) != {dict}:
        usages = [usage if isinstance(usage, dict) else {} for usage in usages]
    fields = fields_of(usages)
    return {name: values for name, values in fields.items() if name not in _NOT_FROM_USAGE}


def _parts(components: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Return the parts of the rewards, in the format of `fields_of`."""
    return fields_of([parts if isinstance(parts, Mapping) else {} for parts in components])


def _usage_of(response: object) -> object:
    if isinstance(response, Mapping):
        return response.get("usage")
    return getattr(response, "usage", None)


def finite(values: Sequence[Any]) -> "array[float] | None":
    """Return the values as doubles; None unless all are finite numbers."""
    try:
        column = array("d", values)
    except (TypeError, OverflowError):
        return None
    return column if np.isfinite(column).all() else None


def _first_number(own_value: object, of_usage: object) -> object:
    return of_usage if as_number(own_value) is None else own_value


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class Keys:
    """The key of each row: the position of its task in task order, and its rollout index."""

    task: IntArray
    rollout: IntArray

    def __len__(self) -> int:
        return len(self.task)

    def order(self) -> IntArray:
        """Return the row positions sorted by task, then rollout; rows with equal keys stay in file
        order.
        """
        return np.lexsort((self.rollout, self.task))

    def take(self, rows: IntArray) -> "Keys":
        return Keys(self.task[rows], self.rollout[rows])


def duplicates(keys: Keys) -> list[list[int]]:
    """Return the row positions of each key that occurs more than once, in key order."""
    order = keys.order()
    ordered = keys.take(order)
    starts = starts_of_runs(ordered)
    repeated = np.flatnonzero(np.diff(starts) > 1)
    return [order[starts[run] : starts[run + 1]].tolist() for run in repeated.tolist()]


def starts_of_runs(ordered: Keys) -> IntArray:
    """Return the first position of each sequence of equal keys, and the number of rows at the end."""
    changes = (np.diff(ordered.task) != 0) | (np.diff(ordered.rollout) != 0)
    inner = np.flatnonzero(changes) + 1
    return np.concatenate([[0], inner, [len(ordered)]]).astype(np.int64)


def positions(sought: Keys, among: Keys) -> IntArray:
    """Return the position of each key of `sought` in `among`, or -1. The keys of `among` are sorted
    and unique.
    """
    if not len(among):
        return np.full(len(sought), -1)
    source = np.repeat([0, 1], [len(among), len(sought)])
    rollout = np.concatenate([among.rollout, sought.rollout])
    task = np.concatenate([among.task, sought.task])
    order = np.lexsort((source, rollout, task))
    last_seen = np.cumsum(source[order] == 0) - 1
    found_rows = np.empty(len(order), dtype=np.int64)
    found_rows[order] = last_seen
    candidate = found_rows[len(among) :]
    near = among.take(np.maximum(candidate, 0))
    same = (near.task == sought.task) & (near.rollout == sought.rollout)
    return np.where(same & (candidate >= 0), candidate, -1)
