"""Gathers the numbers of rows into numpy columns, one per field, as the rows stream by."""

import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
REWARD = "reward"
INDICES = frozenset({TASK_INDEX, ROLLOUT_INDEX})

LARGEST_EXACT = 2.0**53
"""Up to here a double holds every integer, so a column can be given back as integers."""

_FIRST_BYTES = frozenset(b"-0123456789tfNI")


class Number(NamedTuple):
    """A numeric value; `whole` when it was written as an integer or a boolean."""

    value: float
    whole: bool


class _Response(msgspec.Struct):
    usage: Any = None


_decode_response = msgspec.json.Decoder(_Response).decode


def parse_number(raw: msgspec.Raw) -> Number | None:
    """The JSON value as a number, or None when it is something else.

    Python's NaN and Infinity are numbers here; whether one is acceptable is the caller's call.
    """
    if memoryview(raw)[0] not in _FIRST_BYTES:
        return None
    token = bytes(raw).strip()
    if token == b"true":
        return Number(1.0, whole=True)
    if token == b"false":
        return Number(0.0, whole=True)
    return Number(float(token), whole=token.removeprefix(b"-").isdigit())


def as_number(value: object) -> Number | None:
    """The Python value as a number, or None when it is something else."""
    if isinstance(value, bool | int):
        return Number(_float(value), whole=True)
    if isinstance(value, float):
        return Number(value, whole=False)
    return None


def numbers_of_raw(row: Mapping[str, msgspec.Raw]) -> dict[str, Number]:
    """Numeric fields of an undecoded row, and of its `response.usage`; a field of the row wins."""
    found: dict[str, Number] = {}
    if "response" in row:
        found.update(_numbers_of(_usage(row["response"])))
        found.pop(REWARD, None)
    for name, raw in row.items():
        if name not in INDICES:
            number = parse_number(raw)
            if number is not None:
                found[name] = number
    return found


def numbers_of_row(row: Mapping[str, Any]) -> dict[str, Number]:
    """As `numbers_of_raw`, for a row already decoded."""
    response = row.get("response")
    usage = response.get("usage") if isinstance(response, Mapping) else None
    found = dict(_numbers_of(usage))
    found.pop(REWARD, None)
    found.update(_numbers_of({name: row[name] for name in row if name not in INDICES}))
    return found


@dataclass(frozen=True, slots=True)
class Columns:
    """Numeric fields of rows: one value per row, NaN where a row lacks the field.

    Order of fields: the reward, then the others by name.
    """

    values: Mapping[str, FloatArray]
    whole: frozenset[str]
    """Fields whose every value was an integer or a boolean."""

    def take(self, rows: IntArray | BoolArray) -> "Columns":
        return Columns({name: column[rows] for name, column in self.values.items()}, self.whole)


class ColumnBuilder:
    """Grows columns row by row; a field first seen late is NaN for the rows before it."""

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[str, array[float]] = {}
        self._fractional: set[str] = {REWARD}

    def add(self, numbers: Mapping[str, Number]) -> None:
        """Append one row. Values that are not finite count as absent."""
        for name, (value, whole) in numbers.items():
            if not math.isfinite(value):
                continue
            self._column(name).append(value)
            if not whole:
                self._fractional.add(name)
        self._rows += 1

    def build(self) -> Columns:
        names = sorted(self._columns, key=lambda name: (name != REWARD, name))
        values = {name: np.array(self._column(name)) for name in names}
        inexact = {
            name for name, column in values.items() if np.nanmax(np.abs(column)) > LARGEST_EXACT
        }
        return Columns(values, frozenset(values) - self._fractional - inexact)

    def _column(self, name: str) -> "array[float]":
        """The column of a field, filled up to the current row."""
        column = self._columns.setdefault(name, array("d"))
        absent = self._rows - len(column)
        if absent:
            column.extend([math.nan] * absent)
        return column


def _usage(response: msgspec.Raw) -> object:
    try:
        return _decode_response(response).usage
    except msgspec.MsgspecError:
        decoded = json.loads(bytes(response))
        return decoded.get("usage") if isinstance(decoded, dict) else None


def _numbers_of(fields: object) -> Iterator[tuple[str, Number]]:
    if not isinstance(fields, Mapping):
        return
    items: Iterable[tuple[str, object]] = fields.items()
    for name, value in items:
        number = as_number(value)
        if number is not None:
            yield name, number


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
