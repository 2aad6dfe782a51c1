"""Reads chosen rows of a run's files again: the one way from the report back to text.

A frame keeps where each row began, not what it said. Rows are read in the order of the file, so
that a compressed one is unpacked once, forwards, and nothing is held but the row at hand.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from palestra.errors import InputDataError
from palestra.profiling.columns import TASK_INDEX
from palestra.profiling.frame import RunFrame, TaskIndex
from palestra.profiling.paths import COMPRESSED_SUFFIXES
from palestra.profiling.scan import RawRow, decode_value, open_lines, split_row
from palestra.profiling.statistics import group_of_rows

BUFFER_BYTES = 1 << 16
"""Chosen rows lie far apart: a large buffer would mostly read what is then thrown away."""

Row = dict[str, Any]
Place = tuple[int, int, TaskIndex]
"""Where a row begins, the number it is asked for by, and the task it must be of."""


def materialized_rows(
    frame: RunFrame, positions: Iterable[int], fields: frozenset[str]
) -> Iterator[tuple[int, Row]]:
    """The first materialized row of each profiled task at `positions`; only `fields` of it."""
    tasks = frame.rollouts.tasks
    offsets = frame.requests.offset[frame.requests.starts[:-1]][frame.profiled]
    places = [(int(offsets[at]), at, tasks[at]) for at in positions]
    for at, row in _read(frame.inputs_path, places):
        yield at, {name: _decoded(row[name]) for name in row.keys() & fields}


def rollout_rows(frame: RunFrame, rollouts: Sequence[int]) -> Iterator[tuple[int, Row]]:
    """The scored rows of `rollouts`, given by their numbers in the frame, whole."""
    tasks, offsets = frame.rollouts.tasks, frame.rollout_offset
    task_of = group_of_rows(frame.rollouts.starts)[np.array(rollouts, dtype=np.int64)].tolist()
    pairs = zip(rollouts, task_of, strict=True)
    places = [(int(offsets[number]), number, tasks[task]) for number, task in pairs]
    for number, row in _read(frame.rollouts_path, places):
        yield number, {name: _decoded(raw) for name, raw in row.items()}


def _read(path: Path, places: Sequence[Place]) -> Iterator[tuple[int, RawRow]]:
    with _open(path) as file:
        for offset, number, task in sorted(places, key=lambda place: place[:2]):
            file.seek(offset)
            row = split_row(file.readline())
            if row is None or TASK_INDEX not in row or decode_value(row[TASK_INDEX]) != task:
                raise _changed(path, task, offset)
            yield number, row


def _decoded(raw: msgspec.Raw) -> Any:
    """One value; bytes that are not UTF-8 become replacement characters, as this is for reading."""
    try:
        return decode_value(raw)
    except UnicodeDecodeError:
        return json.loads(bytes(raw).decode(errors="replace"))


def _open(path: Path) -> BinaryIO:
    if path.suffix in COMPRESSED_SUFFIXES:
        return open_lines(path)
    try:
        return path.open("rb", buffering=BUFFER_BYTES)
    except OSError as error:
        raise InputDataError(f"cannot read {path}: {error.strerror}") from error


def _changed(path: Path, task: TaskIndex, offset: int) -> InputDataError:
    return InputDataError(
        f"{path} changed while it was being profiled: task {task} is no longer at byte {offset}",
        hint="run the profile again when nothing writes to the file",
    )
