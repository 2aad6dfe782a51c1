"""What has become of a run: its ledger, its files and the executor's word, put together.

A shard is done when its done file says so, whatever a queue remembers; merge and profile are when
their job ended well. A job that never started because another failed is told from one that was
cancelled, and the ledger says why.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

from palestra.cluster import ledger
from palestra.cluster.executors import Executor, JobState, Phase
from palestra.cluster.executors.executor import killed_by, reason_of
from palestra.cluster.layout import JobFiles, RunFiles
from palestra.cluster.plan import Job, Run
from palestra.cluster.records import read_object
from palestra.cluster.shard import NotDone, count, is_done
from palestra.cluster.stamping import with_stamped
from palestra.cluster.units import RunUnit, units_of
from palestra.errors import InputDataError
from palestra.schema import JsonObject


class Standing(StrEnum):
    """Where one shard, or one job without shards, stands."""

    DONE = "done"
    RUNNING = "running"
    QUEUED = "queued"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NEVER_STARTS = "never starts"
    """What it waits for has failed."""
    UNKNOWN = "unknown"
    """The executor has forgotten it, and it has left no word."""
    NOT_SUBMITTED = "not submitted"

    @property
    def active(self) -> bool:
        """Whether it may still change by itself."""
        return self in {Standing.RUNNING, Standing.QUEUED}


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit and where it stands. `rollouts`: expected, scored, failed, left.

    `servers`: how many are expected, ready, failed. `components`: each with state and reason.
    `open_ids`: its jobs that have not ended, in their order.
    """

    unit: RunUnit
    standing: Standing
    reason: str = ""
    restarts: int = 0
    rollouts: Mapping[str, int] = field(default_factory=dict)
    servers: JsonObject = field(default_factory=dict)
    components: Sequence[JsonObject] = ()
    open_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunStatus:
    """All of a run."""

    run: Run
    units: tuple[UnitStatus, ...]

    @property
    def done(self) -> bool:
        return all(one.standing is Standing.DONE for one in self.units)

    @property
    def active(self) -> bool:
        """Whether something waits or runs."""
        return any(one.standing.active for one in self.units)

    def counts(self) -> Mapping[str, int]:
        """How many units stand where."""
        return Counter(one.standing.value for one in self.units)

    def rollouts(self) -> Mapping[str, int]:
        """Of all shards together."""
        total: Counter[str] = Counter({"expected": 0, "scored": 0, "failed": 0, "left": 0})
        for one in self.units:
            total.update(one.rollouts)
        return total


def status_of(files: RunFiles, run: Run, executor: Executor) -> RunStatus:
    """Where everything stands, with one question to the executor.

    Raises ClusterUnreachable when it does not answer: nothing is known then.
    """
    units = units_of(files, run)
    # Of a shard that is done, other jobs may be left that will find so.
    open_units = [
        unit
        for unit in units
        if unit.earlier or not (unit.is_shard and is_done(files.shard(unit.name)))
    ]
    ids = [one.job_id for unit in open_units for one in unit.attempts]
    states = executor.status(ids) if ids else {}
    found = [_status_of_attempts(files, unit, states) for unit in units]
    found += [_status(files, unit, None) for unit in _not_submitted(files, run, units)]
    found = _with_expected(run, found)
    status = RunStatus(run, tuple(_with_dependants(run, found)))
    _record_those_that_never_start(files, status)
    return status


def _not_submitted(files: RunFiles, run: Run, units: Sequence[RunUnit]) -> list[RunUnit]:
    """What the plan has and nobody submitted: a command that was ended half-way leaves such."""
    known = {unit.name for unit in units}
    shards = sorted({shard.name for shard in run.shards} - known)
    others = [job.name for job in run.jobs if not job.shards and job.name not in known]
    nowhere = JobFiles(files.cluster)
    return [
        RunUnit(name, "", "", "", nowhere, is_shard=name in shards) for name in (*shards, *others)
    ]


def _status_of_attempts(
    files: RunFiles, unit: RunUnit, states: Mapping[str, JobState]
) -> UnitStatus:
    """Of several jobs for one shard: the one that runs, else that waits, else the last."""
    open_ids = [
        one.job_id
        for one in unit.attempts
        if (told := states.get(one.job_id)) is not None and not told.state.over
    ]
    order = {Phase.RUNNING: 0, Phase.QUEUED: 1}
    of_interest = [one for one in unit.attempts if one.job_id in open_ids]
    current = min(
        of_interest, key=lambda one: order[states[one.job_id].state], default=unit.attempts[-1]
    )
    status = _status(files, current, states.get(current.job_id))
    return replace(status, open_ids=tuple(open_ids))


def _status(files: RunFiles, unit: RunUnit, told: JobState | None) -> UnitStatus:
    if unit.is_shard and is_done(files.shard(unit.name)):
        return UnitStatus(unit, Standing.DONE, rollouts=_rollouts(files, unit))
    result = read_object(unit.files.result) or {}
    state = told.state if told is not None else Phase.UNKNOWN
    reason = _reason(result, told)
    standing = _STANDING[state] if unit.job else Standing.NOT_SUBMITTED
    if state is Phase.UNKNOWN and result:
        standing = Standing.DONE if result.get("status") == "done" else Standing.FAILED
    if standing is Standing.DONE and unit.is_shard:
        standing, reason = Standing.FAILED, "its job ended well, but it has no done file"
    if standing.active:
        reason = told.reason if told else ""
    state_file = read_object(unit.files.state) or {}
    return UnitStatus(
        unit,
        standing,
        reason,
        told.restarts if told else 0,
        _rollouts(files, unit) if unit.is_shard else {},
        state_file.get("servers") or {} if standing is Standing.RUNNING else {},
        state_file.get("components") or () if standing is not Standing.QUEUED else (),
    )


def _reason(result: JsonObject, told: JobState | None) -> str:
    """Why a job ended, as its supervisor and the executor say."""
    reason = reason_of(result)
    if told is None:
        return reason
    if not reason:
        by_signal = killed_by(told.exit_code) if told.reason == "FAILED" else ""
        return by_signal or told.reason
    if result.get("status") == "cancelled" and told.state is Phase.FAILED:
        # The supervisor saw a signal; which of TIMEOUT, PREEMPTED, … it was for, Slurm knows.
        return f"{told.reason}: {reason}"
    return reason


_STANDING = {
    Phase.QUEUED: Standing.QUEUED,
    Phase.RUNNING: Standing.RUNNING,
    Phase.DONE: Standing.DONE,
    Phase.FAILED: Standing.FAILED,
    Phase.CANCELLED: Standing.CANCELLED,
    Phase.UNKNOWN: Standing.UNKNOWN,
}


def _rollouts(files: RunFiles, unit: RunUnit) -> Mapping[str, int]:
    shard = files.shard(unit.name)
    done = read_object(shard.done)
    if done is not None and is_done(shard):
        held = {"expected": done["expected"], "scored": done["scored"], "left": 0}
        return {**held, "failed": done["failed_terminal"]}
    try:
        counts = count(shard)
    except (NotDone, OSError, ValueError, KeyError):
        return {}
    return {
        "expected": counts.expected,
        "scored": counts.scored,
        "failed": counts.failed,
        "left": counts.left,
    }


def _with_expected(run: Run, found: Sequence[UnitStatus]) -> list[UnitStatus]:
    """Rollouts of shards that have not begun are expected, too, where their number is known."""
    with suppress(InputDataError):
        run = with_stamped(run)
    rows = {shard.name: shard.rows for shard in run.shards}

    def of(one: UnitStatus) -> UnitStatus:
        number = rows.get(one.unit.name)
        if not one.unit.is_shard or one.rollouts or number is None:
            return one
        return replace(one, rollouts={"expected": number, "scored": 0, "failed": 0, "left": number})

    return [of(one) for one in found]


def _with_dependants(run: Run, found: Sequence[UnitStatus]) -> list[UnitStatus]:
    """What was ended before it began because of what it waits for, said so."""
    failed = {
        one.unit.job: f"{one.unit.name} {one.standing.value}"
        + (f": {one.reason}" if one.reason else "")
        for one in reversed(found)
        if one.standing in {Standing.FAILED, Standing.CANCELLED}
    }
    return [_explained(run.jobs, one, failed) for one in found]


def _explained(jobs: Sequence[Job], one: UnitStatus, failed: Mapping[str, str]) -> UnitStatus:
    if one.standing not in {Standing.CANCELLED, Standing.QUEUED}:
        return one
    for job in jobs:
        if job.name != one.unit.job:
            continue
        for after in _all_before(jobs, job):
            if after in failed:
                return replace(
                    one, standing=Standing.NEVER_STARTS, reason=f"because {failed[after]}"
                )
    return one


def _all_before(jobs: Sequence[Job], job: Job) -> list[str]:
    """Jobs that have to go well before that one starts; nearest last."""
    by_name = {one.name: one for one in jobs}
    before: list[str] = []
    look = [job]
    while look:
        for after in look.pop().after:
            if after.kind == "afterok" and after.job in by_name and after.job not in before:
                before.insert(0, after.job)
                look.append(by_name[after.job])
    return before


def _record_those_that_never_start(files: RunFiles, status: RunStatus) -> None:
    """Write into the ledger what no supervisor could: it never ran."""
    known = {
        (event.get("submission"), event.get("dependant"))
        for event in ledger.events(files.ledger)
        if event.get("event") == "never_starts"
    }
    for one in status.units:
        key = (one.unit.submission, one.unit.name)
        if one.standing is Standing.NEVER_STARTS and key not in known:
            event = {
                "event": "never_starts",
                "time": time.time(),
                "submission": one.unit.submission,
                "job": one.unit.job,
                "dependant": one.unit.name,
                "job_id": one.unit.job_id,
                "reason": one.reason,
            }
            # Whoever may read a run may ask how it stands, also where it cannot write.
            with suppress(PermissionError):
                ledger.append(files.ledger, event)
