"""Joins the scanned files of a run into a frame; raises InputDataError when the files do not fit
together. Does no I/O.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palestra.analysis.frame import (
    NO_OUTCOME,
    SCORED,
    SCORED_CODE,
    FailedRequests,
    RequestedRollouts,
    RequestLabels,
    RowPositions,
    RunFrame,
    counts_by_name,
)
from palestra.analysis.scan import PARTIAL
from palestra.analysis.tables import FailedAttempt, KeyTable, RowPlace, ScannedRun, integers
from palestra.errors import InputDataError
from palestra.metrics import IntArray, Keys, Rollouts, TaskIndex, duplicates, positions, task_order
from palestra.schema import Remedy, Unscored, the_command

KEYS_SHOWN = 10


def assemble(scanned: ScannedRun, *, allow_partial: bool) -> RunFrame:
    """Return the frame of a run, sorted by key (task, rollout) whatever the order of the rows."""
    tasks, rank = _ranked(scanned.tasks.names)
    for table in (scanned.inputs, scanned.rollouts):
        _refuse_duplicates(table, table.keys(rank), tasks)
    join = _Join.of(scanned, rank)
    _refuse_orphans(scanned, tasks, join)
    requests, failed, unscored, unmatched = _requests(scanned, tasks, rank, join)
    if not allow_partial:
        _refuse_missing(scanned, requests, join, tasks, unscored)
    by_key = join.rollouts.order()
    families = None
    if scanned.families is not None:
        codes = join.labels(scanned.inputs.family, scanned.rollouts.family)
        families = RequestLabels(scanned.families.names, codes)
    return RunFrame(
        requests=requests,
        rollouts=Rollouts.of_sorted(
            tasks, join.rollouts.take(by_key), scanned.columns.take(by_key)
        ),
        agents=RequestLabels(
            scanned.agents.names, join.labels(scanned.inputs.agent, scanned.rollouts.agent)
        ),
        rollout_places=scanned.rollouts.places(by_key),
        endings=scanned.endings.take(by_key),
        families=families,
        notices=scanned.notices + unmatched,
        unscored=unscored,
        failed=failed,
    )


@dataclass(frozen=True, slots=True)
class _Join:
    """The join of inputs and rollouts: the inputs in key order and, for each rollout in file order,
    the position of its input.
    """

    order: IntArray
    inputs: Keys
    rollouts: Keys
    input_of: IntArray
    """Per rollout, the position of its input; -1 when no input has the rollout's key."""

    @classmethod
    def of(cls, scanned: ScannedRun, rank: IntArray) -> "_Join":
        inputs, rollouts = scanned.inputs.keys(rank), scanned.rollouts.keys(rank)
        order = inputs.order()
        ordered = inputs.take(order)
        return cls(order, ordered, rollouts, positions(rollouts, ordered))

    def outcome(self) -> IntArray:
        """Return one code per input: SCORED_CODE when it has a rollout, else NO_OUTCOME."""
        outcome = np.full(len(self.inputs), NO_OUTCOME)
        outcome[self.input_of] = SCORED_CODE
        return outcome

    def labels(self, of_inputs: "array[int]", of_rollouts: "array[int]") -> IntArray:
        """Return one code per input: the code of its rollout or, without one (-1), the code of the
        input itself.
        """
        codes, rollout_codes = integers(of_inputs)[self.order], integers(of_rollouts)
        codes[self.input_of] = np.where(rollout_codes >= 0, rollout_codes, codes[self.input_of])
        return codes


def _ranked(names: Sequence[TaskIndex]) -> tuple[list[TaskIndex], IntArray]:
    """Return the tasks in sorted order and, for each task code, its position in that order."""
    order = sorted(range(len(names)), key=lambda code: task_order(names[code]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return [names[code] for code in order], rank


def _requests(
    scanned: ScannedRun, tasks: Sequence[TaskIndex], rank: IntArray, join: _Join
) -> tuple[RequestedRollouts, FailedRequests, Unscored, tuple[str, ...]]:
    """Return the requests with their outcomes, the failed ones, the unscored requests by remedy, and
    notices.

    A failure is an outcome only for a request without a scored attempt.
    """
    outcome = join.outcome()
    known_keys = [key for key in scanned.failures if scanned.tasks.find(key[0]) is not None]
    codes = [scanned.tasks.find(task) for task, _ in known_keys]
    failed = Keys(
        rank[np.array(codes, dtype=np.int64)],
        np.array([rollout for _, rollout in known_keys], dtype=np.int64),
    )
    at = positions(failed, join.inputs)
    classes = [scanned.failures[key].failure_class for key in known_keys]
    names = (SCORED, *sorted(set(classes) - {SCORED}))
    remedies: Counter[Remedy] = Counter()
    commands: set[str] = set()
    failures: dict[int, FailedAttempt] = {}
    for position, failure_class, key in zip(at.tolist(), classes, known_keys, strict=True):
        if position >= 0 and outcome[position] == NO_OUTCOME:
            outcome[position] = names.index(failure_class)
            failure = failures[position] = scanned.failures[key]
            remedies[failure.remedy] += 1
            if failure.answered:
                commands.add(failure.reverify)
    remedies[Remedy.RESUME] += int(np.sum(outcome == NO_OUTCOME))
    unmatched = len(scanned.failures) - int(np.sum(at >= 0))
    notices = (
        (f"{unmatched} keys of the failures file have no materialized row and do not count",)
        if unmatched
        else ()
    )
    row_places = scanned.inputs.places(join.order)
    requests = RequestedRollouts(tasks, join.inputs, row_places, outcome, names)
    failed_requests = _failed(failures, scanned.failure_files)
    return requests, failed_requests, Unscored(remedies, the_command(commands)), notices


def _failed(failures: Mapping[int, FailedAttempt], files: Sequence[Path]) -> FailedRequests:
    """Return the failed requests. `failures`: by position in the requests."""
    positions_in_order = sorted(failures)
    attempts = [failures[position] for position in positions_in_order]
    answer_places = [attempt.answer_place or RowPlace(0, -1) for attempt in attempts]
    return FailedRequests(
        np.array(positions_in_order, dtype=np.int64),
        _row_positions([attempt.place for attempt in attempts], files),
        _row_positions(answer_places, files),
        [attempt.remedy for attempt in attempts],
    )


def _row_positions(row_places: Sequence[RowPlace], files: Sequence[Path]) -> RowPositions:
    columns = np.array(row_places, dtype=np.int64).reshape(-1, 2)
    return RowPositions(files, columns[:, 0], columns[:, 1])


def _refuse_duplicates(table: KeyTable, keys: Keys, tasks: Sequence[TaskIndex]) -> None:
    repeated = duplicates(keys)
    if not repeated:
        return
    described = "; ".join(
        f"task {tasks[keys.task[rows[0]]]}, rollout {keys.rollout[rows[0]]} on "
        + table.lines_of(rows[:KEYS_SHOWN])
        for rows in repeated[:KEYS_SHOWN]
    )
    ellipsis = "; …" if len(repeated) > KEYS_SHOWN else ""
    keys_occur = "1 key occurs" if len(repeated) == 1 else f"{len(repeated)} keys occur"
    raise InputDataError(
        f"{table}: {keys_occur} more than once: {described}{ellipsis}",
        hint="do not concatenate the rows of several runs, as their task indices collide; "
        "`palestra merge` combines shards of one run, also where they overlap",
    )


def _refuse_orphans(scanned: ScannedRun, tasks: Sequence[TaskIndex], join: _Join) -> None:
    orphans = join.rollouts.take(np.flatnonzero(join.input_of < 0))
    if len(orphans):
        raise InputDataError(
            f"{len(orphans)} of {len(join.rollouts)} rollouts in {scanned.rollouts} have no "
            f"materialized row in {scanned.inputs}: {_keys_text(orphans, tasks)}",
            hint="pass the materialized inputs of the same run",
        )


def _refuse_missing(
    scanned: ScannedRun,
    requests: RequestedRollouts,
    join: _Join,
    tasks: Sequence[TaskIndex],
    unscored: Unscored,
) -> None:
    missing = np.flatnonzero(~requests.scored)
    if not len(missing):
        return
    failed = counts_by_name(requests.outcome_names, requests.outcome[missing])
    failure_counts = ", ".join(f"{name} {count}" for name, count in failed.items())
    how = f" (of these {sum(failed.values())} failed: {failure_counts})" if failed else ""
    raise InputDataError(
        f"{len(missing)} of {len(requests)} rollouts are missing from {scanned.rollouts}{how}: "
        + _keys_text(join.inputs.take(missing), tasks),
        hint=f"{PARTIAL} profiles the rollouts that exist; {unscored.what_helps()}",
    )


def _keys_text(keys: Keys, tasks: Sequence[TaskIndex]) -> str:
    """Return the first ten keys, in key order, as text: `task:rollout`, separated by commas."""
    first = keys.take(keys.order()[:KEYS_SHOWN])
    pairs = zip(first.task.tolist(), first.rollout.tolist(), strict=True)
    listed = ", ".join(f"{tasks[task]}:{rollout}" for task, rollout in pairs)
    return listed + (", …" if len(keys) > KEYS_SHOWN else "")
