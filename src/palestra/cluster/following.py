"""The status of a run, from its ledger, its files and the executor.

A shard is done when its done file is valid, whatever the queue reports. Merge and profile are done
when their job succeeded. The status distinguishes a cancelled job from one that never starts
because another job failed. The ledger gets the latter, and the endings that no supervisor could
record.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

from palestra.cluster import ledger
from palestra.cluster.executors import Executor, JobState, Phase
from palestra.cluster.executors.executor import killed_by
from palestra.cluster.layout import JobFiles, RunFiles, ShardFiles
from palestra.cluster.plan import PlannedJob, Run
from palestra.cluster.records import read_object, reason_of
from palestra.cluster.shard import NotDone, ShardCounter, ShardCounts, is_done
from palestra.cluster.stamping import with_stamped
from palestra.cluster.units import RunUnit, units_of
from palestra.errors import InputDataError
from palestra.schema import JsonDict, JsonObject


class Standing(StrEnum):
    """The status of one shard, or of one job without shards."""

    DONE = "done"
    RUNNING = "running"
    QUEUED = "queued"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NEVER_STARTS = "never starts"
    """A job that this unit depends on has failed."""
    UNKNOWN = "unknown"
    """The executor no longer has the job, and the job left no result file."""
    NOT_SUBMITTED = "not submitted"

    @property
    def active(self) -> bool:
        """Whether the status may still change without a new submission."""
        return self in {Standing.RUNNING, Standing.QUEUED}


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit and its status. `rollouts`: the numbers expected, scored, failed and left.

    `servers`: how many are expected, ready, failed. `components`: each with its state and reason.
    `open_ids`: the ids of its jobs that have not ended, in order.
    """

    unit: RunUnit
    standing: Standing
    reason: str = ""
    restarts: int = 0
    rollouts: Mapping[str, int] = field(default_factory=dict)
    mean_reward: float | None = None
    """Of a shard that is done, over its scored rollouts."""
    servers: JsonObject = field(default_factory=dict)
    components: Sequence[JsonObject] = ()
    open_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of all units of a run. `gpu_hours`: of all its jobs so far; None: not known."""

    run: Run
    units: tuple[UnitStatus, ...]
    gpu_hours: float | None = None

    @property
    def done(self) -> bool:
        return all(unit.standing is Standing.DONE for unit in self.units)

    @property
    def active(self) -> bool:
        """Whether any unit waits or runs."""
        return any(unit.standing.active for unit in self.units)

    def counts(self) -> Mapping[str, int]:
        """Return the number of units in each status."""
        return Counter(unit.standing.value for unit in self.units)

    def rollouts(self) -> Mapping[str, int]:
        """Return the rollout counts, summed over all shards."""
        total: Counter[str] = Counter({"expected": 0, "scored": 0, "failed": 0, "left": 0})
        for unit in self.units:
            total.update(unit.rollouts)
        return total


def status_of(
    files: RunFiles,
    run: Run,
    executor: Executor,
    *,
    record: bool = True,
    counter: ShardCounter | None = None,
) -> RunStatus:
    """Return the status of all units of a run, with one query to the executor.

    `record`: write to the ledger which units never start, and how units ended whose supervisor could
    not tell. `counter`: of a caller that asks again and again; rows that it has read are not read
    again, and the GPU hours are left out, which are another query: see `with_gpu_hours`. Raises
    ClusterUnreachable: the executor does not answer, so the status is unknown.
    """
    statuses = _unit_statuses(files, run, executor, (counter or ShardCounter()).count)
    status = RunStatus(run, statuses)
    if record:
        _record_what_no_supervisor_knew(files, status)
    return status if counter is not None else with_gpu_hours(status, files, executor)


def with_gpu_hours(status: RunStatus, files: RunFiles, executor: Executor) -> RunStatus:
    """Return a status with the GPU hours of all jobs so far."""
    submitted_ids = [event.job_id for event in ledger.submitted(files.ledger)]
    return replace(status, gpu_hours=executor.gpu_hours(submitted_ids))


def active_units(files: RunFiles, run: Run, executor: Executor) -> frozenset[str]:
    """Return the names of the units that wait or run, with one query to the executor.

    No rollouts are counted, so the question costs little. Raises ClusterUnreachable, as `status_of`.
    """
    statuses = _unit_statuses(files, run, executor, None)
    return frozenset(status.unit.name for status in statuses if status.standing.active)


Count = Callable[[ShardFiles], ShardCounts]


def _unit_statuses(
    files: RunFiles, run: Run, executor: Executor, count_rows: Count | None
) -> tuple[UnitStatus, ...]:
    """Return the status of each unit. `count_rows`: None when nobody asks for rollouts."""
    units = units_of(files, run)
    # Of a shard that is done, other jobs may be left that will find so.
    open_units = [
        unit
        for unit in units
        if unit.earlier or not (unit.is_shard and is_done(files.shard(unit.name)))
    ]
    ids = [attempt.job_id for unit in open_units for attempt in unit.attempts]
    states = executor.status(ids) if ids else {}
    statuses = [_status_of_attempts(files, unit, states, count_rows) for unit in units]
    statuses += [
        _status(files, unit, None, count_rows) for unit in _not_submitted(files, run, units)
    ]
    return tuple(_with_dependants(run, _with_expected(run, statuses)))


def _not_submitted(files: RunFiles, run: Run, units: Sequence[RunUnit]) -> list[RunUnit]:
    """Return the units of the plan that have no job. They exist when a submit command was
    interrupted.
    """
    unit_names = {unit.name for unit in units}
    shards = sorted({shard.name for shard in run.shards} - unit_names)
    others = [job.name for job in run.jobs if not job.shards and job.name not in unit_names]
    nowhere = JobFiles(files.cluster)
    return [
        RunUnit(name, "", "", "", nowhere, is_shard=name in shards) for name in (*shards, *others)
    ]


def _status_of_attempts(
    files: RunFiles, unit: RunUnit, states: Mapping[str, JobState], count_rows: Count | None
) -> UnitStatus:
    """Return the status of a unit from its jobs: the running one, else a waiting one, else the
    last.
    """
    open_ids = [
        attempt.job_id
        for attempt in unit.attempts
        if (job_state := states.get(attempt.job_id)) is not None and not job_state.state.over
    ]
    order = {Phase.RUNNING: 0, Phase.QUEUED: 1}
    of_interest = [attempt for attempt in unit.attempts if attempt.job_id in open_ids]
    current = min(
        of_interest,
        key=lambda attempt: order[states[attempt.job_id].state],
        default=unit.attempts[-1],
    )
    status = _status(files, current, states.get(current.job_id), count_rows)
    return replace(status, open_ids=tuple(open_ids))


def _status(
    files: RunFiles, unit: RunUnit, job_state: JobState | None, count_rows: Count | None
) -> UnitStatus:
    if unit.is_shard and is_done(files.shard(unit.name)):
        return UnitStatus(
            unit,
            Standing.DONE,
            rollouts=_rollouts(files, unit, count_rows),
            mean_reward=_mean_reward(files, unit),
        )
    result = read_object(unit.files.result) or {}
    state = job_state.state if job_state is not None else Phase.UNKNOWN
    reason = _reason(result, job_state)
    standing = _STANDING[state] if unit.job else Standing.NOT_SUBMITTED
    if state is Phase.UNKNOWN and result:
        standing = Standing.DONE if result.get("status") == "done" else Standing.FAILED
    if standing is Standing.DONE and unit.is_shard:
        standing, reason = (
            Standing.FAILED,
            ("its job ended without an error, but the shard has no done file"),
        )
    if standing.active:
        reason = job_state.reason if job_state else ""
    state_file = read_object(unit.files.state) or {}
    return UnitStatus(
        unit,
        standing,
        reason,
        job_state.restarts if job_state else 0,
        _rollouts(files, unit, count_rows) if unit.is_shard else {},
        servers=state_file.get("servers") or {} if standing is Standing.RUNNING else {},
        components=state_file.get("components") or () if standing is not Standing.QUEUED else (),
    )


def _mean_reward(files: RunFiles, unit: RunUnit) -> float | None:
    """Return the mean reward that the done file of a shard names; None without one."""
    value = (read_object(files.shard(unit.name).done) or {}).get("mean_reward")
    return float(value) if isinstance(value, int | float) else None


def _reason(result: JsonObject, job_state: JobState | None) -> str:
    """Return why a job ended, from its supervisor's result and the executor's state."""
    reason = reason_of(result)
    if job_state is None:
        return reason
    if not reason:
        by_signal = killed_by(job_state.exit_code) if job_state.reason == "FAILED" else ""
        return by_signal or job_state.reason
    is_same = job_state.reason in {"", "FAILED"} or job_state.reason.startswith(reason)
    if job_state.state is Phase.FAILED and not is_same:
        # The supervisor saw a signal, or a step that ended; which of TIMEOUT, OUT_OF_MEMORY, … it
        # was for, Slurm knows.
        return f"{job_state.reason}: {reason}"
    return reason


_STANDING = {
    Phase.QUEUED: Standing.QUEUED,
    Phase.RUNNING: Standing.RUNNING,
    Phase.DONE: Standing.DONE,
    Phase.FAILED: Standing.FAILED,
    Phase.CANCELLED: Standing.CANCELLED,
    Phase.UNKNOWN: Standing.UNKNOWN,
}


def _rollouts(files: RunFiles, unit: RunUnit, count_rows: Count | None) -> Mapping[str, int]:
    shard = files.shard(unit.name)
    end_record = read_object(shard.done)
    if end_record is not None and is_done(shard):
        rollout_counts = {
            "expected": end_record["expected"],
            "scored": end_record["scored"],
            "left": 0,
        }
        return {**rollout_counts, "failed": end_record["failed_terminal"]}
    if count_rows is None:
        return {}
    try:
        counts = count_rows(shard)
    except (NotDone, OSError, ValueError, KeyError):
        return {}
    return {
        "expected": counts.expected,
        "scored": counts.scored,
        "failed": counts.failed,
        "left": counts.left,
    }


def _with_expected(run: Run, statuses: Sequence[UnitStatus]) -> list[UnitStatus]:
    """Fill in the expected rollouts of shards that have not begun, where their number is known."""
    with suppress(InputDataError):
        run = with_stamped(run)
    rows = {shard.name: shard.rows for shard in run.shards}

    def of(unit_status: UnitStatus) -> UnitStatus:
        number = rows.get(unit_status.unit.name)
        if not unit_status.unit.is_shard or unit_status.rollouts or number is None:
            return unit_status
        return replace(
            unit_status, rollouts={"expected": number, "scored": 0, "failed": 0, "left": number}
        )

    return [of(unit_status) for unit_status in statuses]


def _with_dependants(run: Run, statuses: Sequence[UnitStatus]) -> list[UnitStatus]:
    """Set the status of units whose dependency failed to `NEVER_STARTS`, with the reason."""
    failed = {
        unit_status.unit.job: f"{unit_status.unit.name} {unit_status.standing.value}"
        + (f": {unit_status.reason}" if unit_status.reason else "")
        for unit_status in reversed(statuses)
        if unit_status.standing in {Standing.FAILED, Standing.CANCELLED}
    }
    return [_explained(run.jobs, unit_status, failed) for unit_status in statuses]


def _explained(
    jobs: Sequence[PlannedJob], unit_status: UnitStatus, failed: Mapping[str, str]
) -> UnitStatus:
    if unit_status.standing not in {Standing.CANCELLED, Standing.QUEUED}:
        return unit_status
    for job in jobs:
        if job.name != unit_status.unit.job:
            continue
        for after in _all_before(jobs, job):
            if after in failed:
                return replace(
                    unit_status, standing=Standing.NEVER_STARTS, reason=f"because {failed[after]}"
                )
    return unit_status


def _all_before(jobs: Sequence[PlannedJob], job: PlannedJob) -> list[str]:
    """Return the names of the jobs that must succeed before `job` starts, the nearest last."""
    by_name = {listed_job.name: listed_job for listed_job in jobs}
    before: list[str] = []
    to_visit = [job]
    while to_visit:
        for after in to_visit.pop().after:
            if after.kind == "afterok" and after.job in by_name and after.job not in before:
                before.insert(0, after.job)
                to_visit.append(by_name[after.job])
    return before


def _record_what_no_supervisor_knew(files: RunFiles, status: RunStatus) -> None:
    """Write to the ledger which units never start, and how units ended whose supervisor could not
    tell: it was killed, or saw a signal without its cause.
    """
    recorded = {_key(event) for event in ledger.events(files.ledger)}
    for unit_status in status.units:
        event = _event_of(unit_status)
        if event and _key(event) not in recorded:
            # Whoever may read a run may ask for its status, also where it cannot write.
            with suppress(PermissionError):
                ledger.append(files.ledger, event)


def _key(event: JsonDict) -> tuple[object, ...]:
    """Return what makes two events say the same."""
    if event.get("event") == "never_starts":
        return "never_starts", event.get("submission"), event.get("dependant")
    return event.get("event"), event.get("job_id"), event.get("reason")


def _event_of(unit_status: UnitStatus) -> JsonDict | None:
    """Return the ledger's event of a unit that did not succeed; None for any other unit."""
    unit = unit_status.unit
    fields: JsonDict = {
        "time": time.time(),
        "submission": unit.submission,
        "job": unit.job,
        "job_id": unit.job_id,
        "reason": unit_status.reason,
    }
    if unit_status.standing is Standing.NEVER_STARTS:
        return {"event": "never_starts", "dependant": unit.name, **fields}
    if unit_status.standing in {Standing.FAILED, Standing.CANCELLED} and unit_status.reason:
        shard_name = unit.name if unit.is_shard else None
        return {
            "event": "ended",
            "shard": shard_name,
            "status": unit_status.standing.value,
            **fields,
        }
    return None
