"""Pairs the tasks of two runs; raises InputDataError for tasks whose rows are not the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from palestra.analysis.fingerprints import Fingerprints, fingerprints, sampling, task_fields
from palestra.analysis.frame import RunFrame
from palestra.analysis.load import load_run
from palestra.analysis.run_head import verifiers_of
from palestra.analysis.samples import sample_reader
from palestra.analysis.sources import rollout_files, without_inputs
from palestra.errors import InputDataError
from palestra.metrics import IntArray, TaskIndex
from palestra.rollouts import differences
from palestra.schema import RunPaths, with_compressed


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run with the fingerprints of its tasks. `name`: A or B, or a name given by the user."""

    name: str
    rollouts: str
    """The rollouts as the user gave them: a file, or a glob of shards."""
    frame: RunFrame
    fingerprints: Fingerprints
    code: Mapping[str, Any] = field(default_factory=dict)
    """The digests of the environments' code, by their names."""
    servers: Mapping[str, Any] = field(default_factory=dict)
    """The environments and the servers that they name, with their settings, by their names."""


def load_side(rollouts: Path | str, *, name: str, allow_unscored: bool = False) -> ComparedRun:
    """Load a run from its rollouts; the inputs and failures files are found by name in the same
    folder.

    `rollouts`: a file or a glob of shards. Incomplete runs are accepted: missing rollouts are
    counted. `allow_unscored` accepts a run in which nothing was scored. Raises InputDataError: a
    file is missing or invalid.
    """
    for path in rollout_files(rollouts):
        if not path.exists():
            raise InputDataError(
                f"there are no rollouts at {path}",
                hint="pass the file of scored rows of a run (.jsonl)",
            )
        if with_compressed(RunPaths(path).materialized_inputs) is None:
            raise without_inputs(path, hint="keep the files of a run in one folder")
    frame = load_run(None, rollouts, allow_partial=True, allow_unscored=allow_unscored)
    return side_of(frame, rollouts, name=name)


def side_of(frame: RunFrame, rollouts: Path | str, *, name: str) -> ComparedRun:
    """Return a run that is loaded as one side of a comparison."""
    files = frame.rollout_places.files
    code, servers = verifiers_of(files[0]) if files else ({}, {})
    requests = fingerprints(frame.requests.places.files)
    return ComparedRun(name, str(rollouts), frame, requests, code, servers)


def refuse_shared_files(runs: list[str]) -> None:
    """Raise InputDataError when two runs have a file in common. Each run is a file or a glob."""
    run_of_file: dict[Path, str] = {}
    for run in runs:
        for path in rollout_files(run):
            first_run = run_of_file.setdefault(path.resolve(), run)
            if first_run != run or runs.count(run) > 1:
                is_same = Path(first_run).resolve() == Path(run).resolve()
                what = (
                    "was passed twice" if is_same else (f"belongs to {first_run} and also to {run}")
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
    """Their indices in run A."""
    tasks_of_b: Sequence[TaskIndex]
    a: IntArray
    b: IntArray
    notices: Sequence[str]


def pair_tasks(
    a: ComparedRun,
    b: ComparedRun,
    *,
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
    by_rows: bool = False,
    anyway: str = "compares them anyway",
) -> Pairs:
    """Return the tasks that both runs have, matched by task index and by the fingerprint of their
    rows.

    Raises InputDataError: a task is in one run only, or its rows differ between the runs.
    `allow_unmatched` leaves such tasks out; `allow_different_rows` pairs tasks by index alone.
    `anyway`: what `allow_different_rows` does for the caller, for the hint.
    `by_rows`: where the runs number the same rows differently, as after a selection, tasks are
    matched by their rows alone.
    """
    in_b = _same_rows(a, b) if by_rows and not allow_different_rows else {}
    is_renumbered = bool(in_b)
    in_b = in_b or {task: task for task in a.fingerprints if task in b.fingerprints}
    tasks = [task for task in a.frame.requests.tasks if task in in_b]
    if not tasks:
        raise InputDataError(
            f"{a.rollouts} and {b.rollouts} share no task index",
            hint="compare runs over the same input file",
        )
    notices = _unpaired(a, b, in_b, allowed=allow_unmatched)
    if is_renumbered:
        moved = sum(task != in_b[task] for task in tasks)
        notices.append(f"{moved} tasks have another index in B and are paired by their rows")
    different = [task for task in tasks if a.fingerprints[task] != b.fingerprints[in_b[task]]]
    if different and not allow_different_rows:
        if not allow_unmatched:
            raise _different(a, b, different, len(tasks), anyway)
        excluded = set(different)
        tasks = [task for task in tasks if task not in excluded]
        notices.append(
            f"{len(different)} tasks have a different prompt or row in the other run "
            "and are left out"
        )
        if not tasks:
            raise _different(a, b, different, len(different), anyway)
    elif different:
        notices.append(f"{len(different)} tasks are paired although their rows differ")
    notices += [*_code_notices(a, b), *_settings_notices(a, b)]
    tasks_of_b = [in_b[task] for task in tasks]
    positions = _positions(a.frame, tasks), _positions(b.frame, tasks_of_b)
    return Pairs(tasks, tasks_of_b, *positions, notices)


def _code_notices(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    """Yield a notice about each environment whose code is not the same in both runs."""
    for name in sorted(a.code.keys() & b.code.keys()):
        changed = [line.partition(": ")[0] for line in differences(a.code[name], b.code[name], "")]
        if changed:
            yield (
                f"the code of {name} is not the same in {a.name} and {b.name}"
                f" ({', '.join(filter(None, changed)) or 'all of it'}), so another verifier may have "
                "given the rewards: `palestra reverify RUN` scores stored answers with today's"
            )


def _settings_notices(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    """Yield a notice about each server that rewards depend on, if its settings are not the same in
    both runs.
    """
    for name in sorted(a.servers.keys() & b.servers.keys()):
        changed = [
            line.removeprefix("settings.").removeprefix("settings.")
            for line in differences(a.servers[name], b.servers[name])
        ]
        if changed:
            yield (
                f"the settings of {name} are not the same in {a.name} and {b.name}"
                f" ({'; '.join(changed[:SHOWN])}{'; …' if len(changed) > SHOWN else ''}), so rewards"
                " may differ for the same answer"
            )


def _same_rows(a: ComparedRun, b: ComparedRun) -> Mapping[TaskIndex, TaskIndex]:
    """Return for the tasks of A the tasks of B with the same rows; empty when the indices fit, or
    when it is not clear which tasks belong together.

    It is clear when no row is twice in a run, and one run has all rows of the other.
    """
    rows_of_a, rows_of_b = a.fingerprints, b.fingerprints
    shared = rows_of_a.keys() & rows_of_b.keys()
    if shared and all(rows_of_a[task] == rows_of_b[task] for task in shared):
        return {}
    task_of_b = {row: task for task, row in rows_of_b.items()}
    pairs = {task: task_of_b[row] for task, row in rows_of_a.items() if row in task_of_b}
    is_clear = len(task_of_b) == len(rows_of_b) and len({*rows_of_a.values()}) == len(rows_of_a)
    return pairs if is_clear and len(pairs) == min(len(rows_of_a), len(rows_of_b)) else {}


def settings_that_differ(a: ComparedRun, b: ComparedRun, pairs: Pairs) -> list[str]:
    """Return the sampling settings that differ for the first paired task, such as `temperature: 0.7
    -> 1.0`.
    """
    firsts = (a, pairs.tasks[0]), (b, pairs.tasks_of_b[0])
    first, second = (sampling(_row(side, task)) for side, task in firsts)
    return [
        f"{name}: {first.get(name, 'absent')} -> {second.get(name, 'absent')}"
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]


def _unpaired(
    a: ComparedRun, b: ComparedRun, in_b: Mapping[TaskIndex, TaskIndex], *, allowed: bool
) -> list[str]:
    """Return a notice about the tasks that only one run has; raise InputDataError unless `allowed`.
    `in_b`: the tasks of A that B has, with their indices there.
    """
    in_a = {task_of_b: task for task, task_of_b in in_b.items()}
    only = [
        (side, [task for task in side.frame.requests.tasks if task not in paired])
        for side, paired in ((a, in_b), (b, in_a))
    ]
    parts = [f"{len(tasks)} only in {side.name} ({_some(tasks)})" for side, tasks in only if tasks]
    if parts and not allowed:
        # either may be a part of the other
        moved = max(_moved(a, b, in_b), _moved(b, a, in_a))
        raise InputDataError(
            f"{a.rollouts} and {b.rollouts} do not have the same tasks: {'; '.join(parts)}",
            hint=_of_moved(moved)
            if moved
            else "compare runs over the same input file, or leave the unmatched tasks out with "
            f"{ALLOW_UNMATCHED}",
        )
    return [f"tasks left out: {'; '.join(parts)}"] if parts else []


def _different(
    a: ComparedRun,
    b: ComparedRun,
    different: Sequence[TaskIndex],
    shared: int,
    anyway: str,
) -> InputDataError:
    """Return the error for the `different` ones of `shared` tasks."""
    tasks_named = ", ".join(f"{task} ({_what_differs(a, b, task)})" for task in different[:SHOWN])
    ellipsis = ", …" if len(different) > SHOWN else ""
    moved = _moved(a, b, {task: task for task in different})
    # Where all tasks differ, none would remain.
    leave_out = "" if len(different) == shared else f"{ALLOW_UNMATCHED} leaves these tasks out; "
    hint = (
        _of_moved(moved)
        if moved
        else f"{leave_out}{ALLOW_DIFFERENT_ROWS} {anyway}, for example two prompt templates over one "
        "dataset"
    )
    return InputDataError(
        f"{len(different)} of {shared} tasks have a different prompt or row in {b.rollouts} than "
        f"in {a.rollouts}: {tasks_named}{ellipsis}",
        hint=hint,
    )


def _moved(a: ComparedRun, b: ComparedRun, in_b: Mapping[TaskIndex, TaskIndex]) -> int:
    """Return how many rows of the tasks of `in_b` have another task index in the other run."""
    elsewhere = set(b.fingerprints.values())
    rows = (a.fingerprints[t] for t in in_b if a.fingerprints[t] != b.fingerprints[in_b[t]])
    return sum(row in elsewhere for row in rows)


def _of_moved(count: int) -> str:
    return (
        f"{count} of these rows have another task index in the other run, as after `palestra "
        "select`, which numbers its tasks anew: collect both runs from the same input file, with "
        "the rows in the same order. `palestra compare` pairs two such runs by their rows when one "
        "has all rows of the other, each once"
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
