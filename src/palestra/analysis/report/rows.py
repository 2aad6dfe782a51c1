"""Chooses the rollouts that the report shows in full, and reads their rows again.

The size of the report is limited, the size of a run is not. Tasks are taken in order of interest,
each with its best, worst and median rollout and its failed ones. Of a small run every rollout is
shown. The text length of a row is known only after reading
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
from palestra.analysis.task_rows import LENGTH_FIELD
from palestra.datasets import open_rows
from palestra.errors import InputDataError
from palestra.metrics import IntArray, Rollouts, TaskIndex, group_of_rows
from palestra.schema import TASK_INDEX, JsonDict, is_compressed

ALL_ROLLOUTS = 2_000
"""Runs of up to this many requested rollouts are shown whole."""
MOST_ROLLOUTS = 40_000
"""The largest number of rollouts whose rows are read again."""
PROMPT_FIELDS = frozenset({"responses_create_params"})


class ChosenRollout(NamedTuple):
    """A rollout to show. `rollout`: its position in the frame. `why`: the reason for the choice;
    empty when all rollouts are shown.
    """

    rollout: int
    why: str


def plan(
    rollouts: Rollouts, interest: Iterable[int], *, every_rollout: bool = False
) -> Mapping[int, Sequence[ChosenRollout]]:
    """Return the chosen rollouts of each task to show, by task position and in order of interest.

    `every_rollout`: choose every rollout, and not only the best, the worst and the median of each task. A
    position beyond the tasks with a scored rollout has none.
    """
    chosen: dict[int, Sequence[ChosenRollout]] = {}
    rows = 0
    for position in interest:
        choices: list[ChosenRollout] = []
        if position < len(rollouts.tasks):
            choices = list(_of_task(rollouts, position))
            if every_rollout:
                choices += _others(rollouts, position, choices)
        rows += len(choices)
        if rows > MOST_ROLLOUTS:
            break
        chosen[position] = choices
    return chosen


def _of_task(rollouts: Rollouts, position: int) -> Iterator[ChosenRollout]:
    """Yield the best rollout (the shortest of equals), the worst (the longest of equals) and the
    median, each only once.
    """
    start, end = rollouts.starts[position : position + 2].tolist()
    if end - start == 1:
        yield ChosenRollout(start, "the only one")
        return
    reward = rollouts.reward[start:end]
    column = rollouts.columns.values.get(LENGTH_FIELD)
    length = np.zeros(end - start) if column is None else np.nan_to_num(column[start:end])
    order = np.lexsort((length, -reward))
    best, worst = int(order[0]), int(order[-1])
    same = reward[best] == reward[worst]
    yield ChosenRollout(start + best, _why_first(same=same, shorter=length[best] < length[worst]))
    yield ChosenRollout(start + worst, _why_last(same=same, longer=length[worst] > length[best]))
    if len(order) > 2 and not same:
        yield ChosenRollout(start + int(order[len(order) // 2]), "median")


def _others(
    rollouts: Rollouts, position: int, choices: Sequence[ChosenRollout]
) -> list[ChosenRollout]:
    start, end = rollouts.starts[position : position + 2].tolist()
    chosen_rollouts = {choice.rollout for choice in choices}
    return [ChosenRollout(at, "") for at in range(start, end) if at not in chosen_rollouts]


def _why_last(*, same: bool, longer: bool) -> str:
    if not same:
        return "worst"
    return "longest" if longer else "another with the same reward"


def _why_first(*, same: bool, shorter: bool) -> str:
    if not same:
        return "best"
    return "shortest" if shorter else "all have the same reward"


def failures_by_task(frame: RunFrame) -> dict[int, list[int]]:
    """Return the failed requests of each task position, as positions in `frame.failed`."""
    position_of = {task: at for at, task in enumerate(shown_order(frame).tolist())}
    by_task: dict[int, list[int]] = {}
    for number, request in enumerate(frame.failed.requests.tolist()):
        by_task.setdefault(position_of[int(frame.requests.keys.task[request])], []).append(number)
    return by_task


def shown_order(frame: RunFrame) -> IntArray:
    """Return the tasks in the order of their positions on the page: those with a scored rollout,
    then those without.
    """
    unscored = np.setdiff1d(np.arange(len(frame.requests.tasks)), frame.profiled)
    return np.concatenate([frame.profiled, unscored])


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
    """Yield the first materialized row of each task at `positions`, with only `fields`."""
    order = shown_order(frame)
    row_places = frame.requests.places.take(frame.requests.starts[:-1][order])
    tasks = frame.requests.tasks
    wanted_rows = [_sought_row(row_places, at, tasks[order[at]]) for at in positions]
    for at, row in _read_sought_rows(row_places.files, wanted_rows):
        yield at, {name: _decoded(row[name]) for name in row.keys() & fields}


def rollout_rows(
    frame: RunFrame, rollouts: Sequence[int], fields: frozenset[str] | None = None
) -> Iterator[tuple[int, JsonDict]]:
    """Yield the scored rows of `rollouts`, which are positions in the frame, with only `fields`;
    with all fields when that is None.
    """
    row_places, tasks = frame.rollout_places, frame.rollouts.tasks
    task_of = group_of_rows(frame.rollouts.starts)[np.array(rollouts, dtype=np.int64)].tolist()
    pairs = zip(rollouts, task_of, strict=True)
    wanted_rows = [_sought_row(row_places, number, tasks[task]) for number, task in pairs]
    for number, row in _read_sought_rows(row_places.files, wanted_rows):
        names = row.keys() if fields is None else row.keys() & fields
        yield number, {name: _decoded(row[name]) for name in names}


def failed_rows(frame: RunFrame, numbers: Sequence[int]) -> Iterator[tuple[int, JsonDict]]:
    """Yield the rows of the last attempt of failed requests, which are positions in `frame.failed`.

    When an earlier attempt has kept the model's answer, the row has that answer.
    """
    failed = frame.failed
    answers: dict[int, Any] = {}
    elsewhere = [
        number
        for number in numbers
        if failed.answer_places.offset[number] >= 0
        and (failed.answer_places.file[number], failed.answer_places.offset[number])
        != (failed.places.file[number], failed.places.offset[number])
    ]
    for number, row in _failed_rows(frame, failed.answer_places, elsewhere):
        answers[number] = _decoded(row["response"])
    for number, row in _failed_rows(frame, failed.places, numbers):
        decoded = {name: _decoded(raw) for name, raw in row.items()}
        yield number, {**decoded, **({"response": answers[number]} if number in answers else {})}


def _failed_rows(
    frame: RunFrame, row_places: RowPositions, numbers: Sequence[int]
) -> Iterator[tuple[int, RawRow]]:
    tasks, keys, requests = frame.requests.tasks, frame.requests.keys.task, frame.failed.requests
    wanted_rows = [
        _sought_row(row_places, number, tasks[keys[requests[number]]]) for number in numbers
    ]
    yield from _read_sought_rows(row_places.files, wanted_rows)


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
        raise InputDataError(f"cannot read {path} a second time: {error}") from error


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
        hint="profile the run again when no process writes to the file",
    )
