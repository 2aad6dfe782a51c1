"""A failing row, field by field: what the environment's request model asks for, and what it has."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.datasets import Door, DoorKeeper
from palestra.doctor.findings import Quote, quote
from palestra.doctor.reading import json_rows
from palestra.errors import FieldProblem, RowIdentity
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX

MOST_FIELDS: Final = 5
LONGEST_VALUE: Final = 120
_ABSENT: Final = object()


def materialized_row(inputs: Path, row: RowIdentity) -> tuple[int, Mapping[str, Any]] | None:
    """The line of a rollout in the materialized inputs; of any rollout of its task, they are alike."""
    if not inputs.is_file():
        return None
    for number, held in json_rows(inputs):
        if not isinstance(held, Mapping) or held.get(TASK_INDEX) != row.task:
            continue
        if row.rollout is None or held.get(ROLLOUT_INDEX) == row.rollout:
            return number, held
    return None


def compared(
    inputs: Path,
    row: RowIdentity,
    problems: Sequence[FieldProblem],
    doors: Sequence[Door],
) -> tuple[Quote, ...]:
    """The fields of a row that do not fit: those that a server named, and those of `doors`."""
    found = materialized_row(inputs, row)
    if found is None:
        return ()
    number, held = found
    quotes = [_field(inputs, number, held, p.pointer, p.expected) for p in problems]
    named = {problem.pointer for problem in problems}
    for pointer, expected in _by_doors(held, doors):
        if pointer not in named:
            quotes.append(_field(inputs, number, held, pointer, expected))
    return tuple(quotes[:MOST_FIELDS])


def _by_doors(row: Mapping[str, Any], doors: Sequence[Door]) -> Iterator[tuple[str, str]]:
    for text in DoorKeeper(list(doors)).problems(row):
        pointer, _, expected = text.partition(": ")
        yield ("" if pointer == "/" else pointer), expected


def _field(inputs: Path, number: int, row: Mapping[str, Any], pointer: str, expected: str) -> Quote:
    value = _at(row, pointer)
    has = "the row has no such field" if value is _ABSENT else f"the row has {_shown(value)}"
    text = f"{expected}; {has}" if pointer else expected
    return quote(inputs, text, line=number, pointer=pointer or "/")


def _at(row: Any, pointer: str) -> Any:
    held = row
    for step in pointer.split("/")[1:]:
        if isinstance(held, Mapping) and step in held:
            held = held[step]
        elif isinstance(held, list) and step.isdecimal() and int(step) < len(held):
            held = held[int(step)]
        else:
            return _ABSENT
    return held


def _shown(value: Any) -> str:
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
