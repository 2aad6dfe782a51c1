"""Joins the scanned files of a run into a frame; raises InputDataError when the files do not fit
together. Does no I/O, but for the manifest of a run that it refuses.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from palestra.analysis.advice import advice_about
from palestra.analysis.frame import RequestedRollouts, RequestLabels, RunFrame, counts_by_name
from palestra.analysis.joined import JoinedRun, joined_frame
from palestra.analysis.scan import PARTIAL
from palestra.analysis.tables import FailedAttempt, KeyTable, ScannedRun, integers
from palestra.errors import InputDataError
from palestra.metrics import BoolArray, IntArray, Keys, TaskIndex, duplicates, positions, task_order
from palestra.schema import Unscored

KEYS_SHOWN = 10


def assemble(scanned: ScannedRun, *, allow_partial: bool) -> RunFrame:
    """Return the frame of a run, sorted by key (task, rollout) whatever the order of the rows."""
    tasks, rank = _ranked(scanned.tasks.names)
    for table in (scanned.inputs, scanned.rollouts):
        _refuse_duplicates(table, table.keys(rank), tasks)
    join = _Join.of(scanned, rank)
    _refuse_orphans(scanned, tasks, join)
    frame = joined_frame(_joined(scanned, tasks, rank, join))
    if not allow_partial:
        _refuse_missing(scanned, frame.requests, join, tasks, frame.unscored)
    return frame


def _joined(
    scanned: ScannedRun, tasks: Sequence[TaskIndex], rank: IntArray, join: "_Join"
) -> JoinedRun:
    by_key = join.rollouts.order()
    families = None
    if scanned.families is not None:
        codes = join.labels(scanned.inputs.family, scanned.rollouts.family)
        families = RequestLabels(scanned.families.names, codes)
    failures = _failures_by_position(scanned, rank, join)
    return JoinedRun(
        tasks=tasks,
        requests=join.inputs,
        request_places=scanned.inputs.places(join.order),
        scored=join.scored(),
        columns=scanned.columns.take(by_key),
        rollout_places=scanned.rollouts.places(by_key),
        endings=scanned.endings.take(by_key),
        agents=RequestLabels(
            scanned.agents.names, join.labels(scanned.inputs.agent, scanned.rollouts.agent)
        ),
        families=families,
        failures=failures,
        failure_files=scanned.failure_files,
        unmatched_failures=len(scanned.failures) - len(failures),
        notices=scanned.notices,
        missing_shards=scanned.missing_shards,
    )


def _failures_by_position(
    scanned: ScannedRun, rank: IntArray, join: "_Join"
) -> Mapping[int, FailedAttempt]:
    """Return the last failed attempt of each request with one, by the request's position."""
    known_keys = [key for key in scanned.failures if scanned.tasks.find(key[0]) is not None]
    codes = [scanned.tasks.find(task) for task, _ in known_keys]
    failed = Keys(
        rank[np.array(codes, dtype=np.int64)],
        np.array([rollout for _, rollout in known_keys], dtype=np.int64),
    )
    at = positions(failed, join.inputs).tolist()
    return {
        position: scanned.failures[key]
        for position, key in zip(at, known_keys, strict=True)
        if position >= 0
    }


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

    def scored(self) -> BoolArray:
        """Return for each input whether it has a rollout."""
        scored = np.zeros(len(self.inputs), np.bool_)
        scored[self.input_of] = True
        return scored

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
        # one file is what was asked for; several are meant to be the run
        if scanned.missing_shards is not None and len(scanned.rollouts.files) > 1:
            raise InputDataError(
                str(scanned.missing_shards),
                hint=f"{PARTIAL} profiles the rollouts that exist; "
                "`palestra cluster status` says why a shard's job ended",
            )
        return
    failed = counts_by_name(requests.outcome_names, requests.outcome[missing])
    failure_counts = ", ".join(f"{name} {count}" for name, count in failed.items())
    how = f" (of these {sum(failed.values())} failed: {failure_counts})" if failed else ""
    raise InputDataError(
        f"{len(missing)} of {len(requests)} rollouts are missing from {scanned.rollouts}{how}: "
        + _keys_text(join.inputs.take(missing), tasks),
        hint=f"{PARTIAL} profiles the rollouts that exist; "
        + advice_about(scanned.rollouts.files)(unscored.what_helps()),
    )


def _keys_text(keys: Keys, tasks: Sequence[TaskIndex]) -> str:
    """Return the first ten keys, in key order, as text: `task:rollout`, separated by commas."""
    first = keys.take(keys.order()[:KEYS_SHOWN])
    pairs = zip(first.task.tolist(), first.rollout.tolist(), strict=True)
    listed = ", ".join(f"{tasks[task]}:{rollout}" for task, rollout in pairs)
    return listed + (", …" if len(keys) > KEYS_SHOWN else "")
