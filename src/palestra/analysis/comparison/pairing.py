"""Pairs the tasks of two runs; raises InputDataError for tasks whose rows are not the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palestra.analysis.fingerprints import Fingerprints, fingerprints, sampling, task_fields
from palestra.analysis.frame import RunFrame
from palestra.analysis.load import load_run
from palestra.analysis.samples import sample_reader
from palestra.analysis.sources import rollout_files
from palestra.errors import InputDataError
from palestra.metrics import IntArray, TaskIndex
from palestra.schema import RunPaths, with_compressed


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run with the fingerprints of its tasks. `name`: A or B, or a name given by the user."""

    name: str
    rollouts: str
    """The rollouts as the user gave them: a file, or a glob of shards."""
    frame: RunFrame
    fingerprints: Fingerprints


def load_side(rollouts: Path | str, *, name: str) -> ComparedRun:
    """Load a run from its rollouts; the inputs and failures files are found by name in the same
    folder.

    `rollouts`: a file or a glob of shards. Incomplete runs are accepted: missing rollouts are
    counted. Raises InputDataError: a file is missing or invalid.
    """
    for path in rollout_files(rollouts):
        if not path.exists():
            raise InputDataError(
                f"there are no rollouts at {path}",
                hint="pass the file of scored rows of a run (.jsonl)",
            )
        inputs = RunPaths(path).materialized_inputs
        if with_compressed(inputs) is None:
            raise InputDataError(
                f"the materialized inputs of {path} do not exist: {inputs}",
                hint="keep the files of a run in one folder; for the output of reverify, copy the "
                f"materialized inputs of the run that it read to {inputs}",
            )
    return side_of(load_run(None, rollouts, allow_partial=True), rollouts, name=name)


def side_of(frame: RunFrame, rollouts: Path | str, *, name: str) -> ComparedRun:
    """Return a run that is loaded as one side of a comparison."""
    return ComparedRun(name, str(rollouts), frame, fingerprints(frame.requests.places.files))


def refuse_shared_files(runs: list[str]) -> None:
    """Raise InputDataError when two runs have a file in common. Each run is a file or a glob."""
    run_of_file: dict[Path, str] = {}
    for run in runs:
        for path in rollout_files(run):
            first_run = run_of_file.setdefault(path.resolve(), run)
            if first_run != run or runs.count(run) > 1:
                what = (
                    "was passed twice"
                    if first_run == run
                    else (f"belongs to {first_run} and also to {run}")
                )
                raise InputDataError(
                    f"{path} {what}, so these are not two different runs",
                    hint="pass the rollouts of two different runs",
                )


SHOWN = 10
ALLOW_UNMATCHED = "--allow-unmatched"
ALLOW_DIFFERENT_ROWS = "--allow-different-rows"


@dataclass(frozen=True, slots=True)
class Pairs:
    """The tasks that two runs share. `a`, `b`: their positions in each run's `requests.tasks`."""

    tasks: Sequence[TaskIndex]
    a: IntArray
    b: IntArray
    notices: Sequence[str]


def pair_tasks(
    a: ComparedRun,
    b: ComparedRun,
    *,
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
) -> Pairs:
    """Return the tasks that both runs have, matched by task index and by the fingerprint of their
    rows.

    Raises InputDataError: a task is in one run only, or its rows differ between the runs.
    `allow_unmatched` leaves such tasks out; `allow_different_rows` pairs tasks by index alone.
    """
    tasks = [task for task in a.frame.requests.tasks if task in b.fingerprints]
    if not tasks:
        raise InputDataError(
            f"{a.rollouts} and {b.rollouts} share no task index",
            hint="compare runs over the same input file",
        )
    notices = _unpaired(a, b, allowed=allow_unmatched)
    different = [task for task in tasks if a.fingerprints[task] != b.fingerprints[task]]
    if different and not allow_different_rows:
        if not allow_unmatched:
            raise _different(a, b, different, len(tasks))
        excluded = set(different)
        tasks = [task for task in tasks if task not in excluded]
        notices.append(
            f"{len(different)} tasks have a different prompt or row in the other run "
            "and are left out"
        )
        if not tasks:
            raise _different(a, b, different, len(different))
    elif different:
        notices.append(f"{len(different)} tasks are paired although their rows differ")
    return Pairs(tasks, _positions(a.frame, tasks), _positions(b.frame, tasks), notices)


def settings_that_differ(a: ComparedRun, b: ComparedRun, pairs: Pairs) -> list[str]:
    """Return the sampling settings that differ for the first paired task, such as `temperature: 0.7
    -> 1.0`.
    """
    task = pairs.tasks[0]
    first, second = (sampling(_row(side, task)) for side in (a, b))
    return [
        f"{name}: {first.get(name, 'absent')} -> {second.get(name, 'absent')}"
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]


def _unpaired(a: ComparedRun, b: ComparedRun, *, allowed: bool) -> list[str]:
    """Return a notice about the tasks that only one run has; raise InputDataError unless `allowed`."""
    only = [
        (side, [task for task in side.frame.requests.tasks if task not in opposite.fingerprints])
        for side, opposite in ((a, b), (b, a))
    ]
    parts = [f"{len(tasks)} only in {side.name} ({_some(tasks)})" for side, tasks in only if tasks]
    if parts and not allowed:
        raise InputDataError(
            f"{a.rollouts} and {b.rollouts} do not have the same tasks: {'; '.join(parts)}",
            hint="compare runs over the same input file, or leave the unmatched tasks out with "
            f"{ALLOW_UNMATCHED}",
        )
    return [f"tasks left out: {'; '.join(parts)}"] if parts else []


def _different(
    a: ComparedRun, b: ComparedRun, different: Sequence[TaskIndex], shared: int
) -> InputDataError:
    tasks_named = ", ".join(f"{task} ({_what_differs(a, b, task)})" for task in different[:SHOWN])
    ellipsis = ", …" if len(different) > SHOWN else ""
    elsewhere = set(b.fingerprints.values())
    moved = sum(a.fingerprints[task] in elsewhere for task in different)
    hint = (
        f"{moved} of these rows have another task index in the other run: collect both runs from "
        "the same input file, with the rows in the same order"
        if moved
        else f"{ALLOW_UNMATCHED} leaves these tasks out; {ALLOW_DIFFERENT_ROWS} compares them "
        "anyway, for example two prompt templates over one dataset"
    )
    return InputDataError(
        f"{len(different)} of {shared} tasks have a different prompt or row in {b.rollouts} than "
        f"in {a.rollouts}: {tasks_named}{ellipsis}",
        hint=hint,
    )


def _what_differs(a: ComparedRun, b: ComparedRun, task: TaskIndex) -> str:
    first, second = (task_fields(_row(side, task)) for side in (a, b))
    names = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    return " and ".join(names) or "a field that one of them lacks"


def _row(side: ComparedRun, task: TaskIndex) -> dict[str, object]:
    requests = side.frame.requests
    first = requests.starts[requests.tasks.index(task)]
    with sample_reader(requests.places.take(np.array([first]))) as samples:
        return samples.read(0, task)


def _positions(frame: RunFrame, tasks: Sequence[TaskIndex]) -> IntArray:
    position_of = {task: position for position, task in enumerate(frame.requests.tasks)}
    return np.array([position_of[task] for task in tasks], dtype=np.int64)


def _some(tasks: Sequence[TaskIndex]) -> str:
    return ", ".join(map(str, tasks[:SHOWN])) + (", …" if len(tasks) > SHOWN else "")
