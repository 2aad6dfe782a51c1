"""Chooses the rollouts that the report shows in full, and reads their rows again.

The size of the report is limited, the size of a run is not. Tasks are taken in order of interest,
each with its best, worst and longest rollout. The text length of a row is known only after reading
it. So `plan` limits the number of rows, and the writer stops when the size limit in bytes is
reached.

A frame has the position of each row, not its content. Rows are read in file order, so that a
compressed file is read once, forwards, and only one row at a time is in memory.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np

from palestra.analysis.frame import RowPositions, RunFrame
from palestra.analysis.scan import decode_value, split_row
from palestra.analysis.sources import is_compressed, open_rows
from palestra.analysis.task_rows import LENGTH_FIELD
from palestra.errors import InputDataError
from palestra.metrics import Rollouts, TaskIndex, group_of_rows
from palestra.schema import TASK_INDEX, JsonDict

MOST_ROLLOUTS = 4_000
"""The largest number of rollouts whose rows are read again."""


class ChosenRollout(NamedTuple):
    """A rollout to show. `rollout`: its position in the frame. `why`: the reason for the choice."""

    rollout: int
    why: str


def plan(rollouts: Rollouts, interest: Iterable[int]) -> Mapping[int, Sequence[ChosenRollout]]:
    """Return the chosen rollouts of each task to show, by task position and in order of interest."""
    chosen: dict[int, Sequence[ChosenRollout]] = {}
    rows = 0
    for position in interest:
        choices = list(_of_task(rollouts, position))
        rows += len(choices)
        if rows > MOST_ROLLOUTS:
            break
        chosen[position] = choices
    return chosen


def _of_task(rollouts: Rollouts, position: int) -> Iterator[ChosenRollout]:
    """Yield the best rollout (the shortest of equals), the worst (the longest of equals) and the
    longest, each only once.
    """
    start, end = rollouts.starts[position : position + 2].tolist()
    if end - start == 1:
        yield ChosenRollout(start, "the only one")
        return
    reward = rollouts.reward[start:end]
    column = rollouts.columns.values.get(LENGTH_FIELD)
    length = np.zeros(end - start) if column is None else np.nan_to_num(column[start:end])
    best = int(np.lexsort((length, -reward))[0])
    worst = int(np.lexsort((-length, reward))[0])
    longest = int(np.argmax(length))
    same = reward[best] == reward[worst]
    yield ChosenRollout(start + best, _why_first(same=same, shorter=length[best] < length[worst]))
    if worst != best:
        yield ChosenRollout(
            start + worst, _why_last(same=same, longer=length[worst] > length[best])
        )
    if length[longest] > max(length[best], length[worst]):
        yield ChosenRollout(start + longest, "longest")


def _why_last(*, same: bool, longer: bool) -> str:
    if not same:
        return "worst"
    return "longest" if longer else "another"


def _why_first(*, same: bool, shorter: bool) -> str:
    if not same:
        return "best"
    return "shortest" if shorter else "one of equals"


PLAIN_BUFFER_BYTES = 1 << 16
"""The read buffer of plain files. Chosen rows are far apart, so most of a larger buffer would be
unused."""
SKIPPED_BYTES = 1 << 20

RawRow = dict[str, msgspec.Raw]
LineAt = Callable[[int], bytes]
"""Returns the line at a byte offset; offsets must be passed in ascending order."""


class _Wanted(NamedTuple):
    """A row to read: its file, byte offset, `number` to return it by, and expected task."""

    file: int
    offset: int
    number: int
    task: TaskIndex


def materialized_rows(
    frame: RunFrame, positions: Iterable[int], fields: frozenset[str]
) -> Iterator[tuple[int, JsonDict]]:
    """Yield the first materialized row of each profiled task at `positions`, with only `fields`."""
    row_places = frame.requests.places.take(frame.requests.starts[:-1][frame.profiled])
    tasks = frame.rollouts.tasks
    wanted_rows = [_sought_row(row_places, at, tasks[at]) for at in positions]
    for at, row in _read_sought_rows(row_places.files, wanted_rows):
        yield at, {name: _decoded(row[name]) for name in row.keys() & fields}


def rollout_rows(frame: RunFrame, rollouts: Sequence[int]) -> Iterator[tuple[int, JsonDict]]:
    """Yield the complete scored rows of `rollouts`, which are positions in the frame."""
    row_places, tasks = frame.rollout_places, frame.rollouts.tasks
    task_of = group_of_rows(frame.rollouts.starts)[np.array(rollouts, dtype=np.int64)].tolist()
    pairs = zip(rollouts, task_of, strict=True)
    wanted_rows = [_sought_row(row_places, number, tasks[task]) for number, task in pairs]
    for number, row in _read_sought_rows(row_places.files, wanted_rows):
        yield number, {name: _decoded(raw) for name, raw in row.items()}


def _sought_row(row_places: RowPositions, number: int, task: TaskIndex) -> _Wanted:
    return _Wanted(int(row_places.file[number]), int(row_places.offset[number]), number, task)


def _read_sought_rows(
    files: Sequence[Path], wanted_rows: Sequence[_Wanted]
) -> Iterator[tuple[int, RawRow]]:
    in_order = sorted(wanted_rows, key=lambda wanted_row: wanted_row[:3])
    for file, rows in groupby(in_order, key=lambda wanted_row: wanted_row.file):
        path = files[file]
        with _lines(path) as line_at:
            for wanted_row in rows:
                row = split_row(line_at(wanted_row.offset))
                if row is None or TASK_INDEX not in row:
                    raise _changed(path, wanted_row)
                if decode_value(row[TASK_INDEX]) != wanted_row.task:
                    raise _changed(path, wanted_row)
                yield wanted_row.number, row


@contextmanager
def _lines(path: Path) -> Iterator[LineAt]:
    try:
        if is_compressed(path):
            with open_rows(path) as file:
                yield _forwards(file)
        else:
            with path.open("rb", buffering=PLAIN_BUFFER_BYTES) as file:
                yield lambda offset: (file.seek(offset), file.readline())[1]
    except (OSError, EOFError, zlib.error) as error:
        raise InputDataError(f"cannot read {path} again: {error}") from error


def _forwards(file: BinaryIO) -> LineAt:
    """Return a reader of lines by offset for a compressed file, which can only be read forwards."""
    at = 0

    def line_at(offset: int) -> bytes:
        nonlocal at
        while at < offset and (skipped := len(file.read(min(offset - at, SKIPPED_BYTES)))):
            at += skipped
        line = file.readline()
        at += len(line)
        return line

    return line_at


def _decoded(raw: msgspec.Raw) -> Any:
    """Decode one value. Invalid UTF-8 becomes replacement characters, since the text is only
    displayed.
    """
    try:
        return decode_value(raw)
    except UnicodeDecodeError:
        return json.loads(bytes(raw).decode(errors="replace"))


def _changed(path: Path, wanted_row: _Wanted) -> InputDataError:
    return InputDataError(
        f"{path} changed while it was being profiled: task {wanted_row.task} is no longer at byte "
        f"{wanted_row.offset}",
        hint="run the profile again when nothing writes to the file",
    )
