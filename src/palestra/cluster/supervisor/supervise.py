"""Run one job from start to finish.

    lease -> services -> all ready -> main step -> done file -> lease released -> result, ledger

Every error is reported with the component where it began. The main step is always ended before the
services that it uses.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from palestra.cluster import shard
from palestra.cluster.layout import ShardFiles
from palestra.cluster.lease import Holder, Lease, LeaseHeld
from palestra.cluster.ports import NoFreePort
from palestra.cluster.records import reason_of, write_object
from palestra.cluster.supervisor import processes, slurm
from palestra.cluster.supervisor.context import Context
from palestra.cluster.supervisor.probe import BadProbe
from palestra.cluster.supervisor.services import (
    DRAINED,
    MainStep,
    Service,
    ServiceFailure,
    ServiceState,
)
from palestra.system import how_ended

LOOK_EVERY_S = 0.2
TOLD_EVERY_S = 5.0
TOLD_AFTER_S = 2.0
"""How long after its steps Slurm may signal the supervisor."""
LEASE_HELD = 16
NOT_DONE = 17
UNWRITABLE = 18


@dataclass
class Signals:
    """The signals that the job has received. Signal handlers set the fields."""

    drain: bool = False
    """Whether the signal came that the time limit is near."""
    stop: int = 0
    """The number of the first stop signal; 0 when none came."""
    stopped_at: float = 0.0
    """The time of the first stop signal."""


@dataclass(frozen=True)
class JobEnding:
    """How the job ended. `status`: done, failed, drained, cancelled or refused."""

    status: str
    code: int
    reason: str = ""
    component: str = ""
    log: str = ""
    counts: shard.ShardCounts | None = None

    @classmethod
    def by(cls, failure: ServiceFailure) -> JobEnding:
        return cls("failed", failure.code, failure.reason, failure.component, failure.log)


class Supervision:
    """Runs one start of a job."""

    def __init__(self, context: Context, signals: Signals) -> None:
        self._context = context
        self._signals = signals
        self._services: list[Service] = []
        self._main = MainStep(context)
        self._told_at = 0.0
        self._stopped_by_itself = True
        self._finished = False
        files = context.run
        unit = context.task.shard.name if context.task.shard else None
        self._shard: ShardFiles | None = files.shard(unit) if unit else None
        self._lease_path = (self._shard or files.merged).lease
        self._lease = Lease(
            self._lease_path,
            Holder.me(context.slurm_id, context.restart),
            is_gone=slurm.is_gone if context.slurm_id else None,
            report=context.say,
        )

    def run(self) -> JobEnding:
        """Run the job. All its processes have ended when this returns."""
        context = self._context
        try:
            context.files.folder.mkdir(parents=True, exist_ok=True)
            context.files.result.unlink(missing_ok=True)  # how an earlier start of it ended
            context.record("started", host=socket.gethostname())
            self._lease.take()
        except (LeaseHeld, slurm.SlurmUnreachable) as error:
            return self._finish(JobEnding("refused", LEASE_HELD, str(error)))
        except OSError as error:
            return self._finish(
                JobEnding("failed", UNWRITABLE, f"cannot write the files of the run: {error}")
            )
        context.lease = (self._lease_path, self._lease.number)
        try:
            ending = self._already_done() or self._work()
        except OSError as error:
            ending = JobEnding("failed", UNWRITABLE, f"cannot write the files of the run: {error}")
        finally:
            self._stop_all()
        ending = self._settled(ending)
        try:
            self._lease.release(stopped=self._stopped_by_itself)
        except OSError as error:
            context.say(f"cannot remove the lock of the shard: {error}")
        return self._finish(ending)

    def told_to_stop(self, number: int) -> None:
        """Handle a stop signal: store it, and write a result file at once.

        Reason: a site may kill the job seconds later, before it has ended in an orderly way.
        """
        signals = self._signals
        if signals.stop:
            return
        signals.stop, signals.stopped_at = number, time.time()
        if self._finished:
            return
        ending = self._cancelled(", and killed before it had stopped in order")
        with contextlib.suppress(OSError):
            self._write_result(ending)

    def _cancelled(self, addition: str = "") -> JobEnding:
        signals = self._signals
        by = f"by Slurm ({how_ended(-signals.stop)})"
        if not self._context.slurm_id:
            by = f"by {how_ended(-signals.stop)}"
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(signals.stopped_at))
        return JobEnding("cancelled", 128 + signals.stop, f"cancelled {by} at {at}{addition}")

    def _already_done(self) -> JobEnding | None:
        """Return the ending when the shard is done already; None when it must be collected.

        With `rerun_done`, first move the shard's files aside, once per job.
        """
        files = self._shard
        if files is None:
            return None
        if self._context.task.run.rerun_done:
            self._set_aside_once(files)
        if not shard.is_done(files):
            return None
        self._context.say(f"{files.name} is done already")
        return JobEnding("done", 0, "it was done already")

    def _set_aside_once(self, files: ShardFiles) -> None:
        mark = self._context.files.folder / f"{files.name}.set-aside"
        if mark.exists():
            return  # a restart of this job: what is there was collected by it
        moved = shard.set_shard_aside(self._context.run, files.name, f".bak-{time.time():.0f}")
        mark.touch()
        if moved:
            self._context.say(f"moved aside, to be collected again: {', '.join(moved)}")

    def _work(self) -> JobEnding:
        try:
            self._services = [Service(self._context, c) for c in self._context.task.job.services]
            for service in self._services:
                service.start()
        except (BadProbe, NoFreePort, OSError) as error:
            waiting_service = next(
                (s for s in self._services if s.state is ServiceState.WAITING), None
            )
            return JobEnding(
                "failed", 1, str(error), waiting_service.component.name if waiting_service else ""
            )
        return self._until(self._all_ready) or self._run_main()

    def _all_ready(self) -> bool:
        return all(service.settled for service in self._services)

    def _run_main(self) -> JobEnding:
        if self._signals.drain:
            return JobEnding(
                "drained", DRAINED, "the time limit is near, and the collection had not begun"
            )
        try:
            self._main.start()
        except OSError as error:
            return JobEnding("failed", 1, str(error), self._main.component.name)
        return self._until(lambda: not self._main.running) or self._main_ended()

    def _main_ended(self) -> JobEnding:
        code, name = self._main.code or 0, self._main.component.name
        if code == DRAINED:
            return JobEnding("drained", DRAINED, "it was told to start no more rollouts", name)
        if code and self._main.overdue:
            reason = f"{name} was ended: it did not finish its requests before the time limit"
            return JobEnding("drained", DRAINED, reason, name)
        if code and self._also_told(code):
            return self._cancelled()
        if code:
            status = "drained" if self._signals.drain else "failed"
            reason = f"{name} {processes.how_it_ended(code)}"
            return JobEnding(status, code if 0 < code < 256 else 1, reason, name, self._main.tail())
        return JobEnding("done", 0)

    def _also_told(self, code: int) -> bool:
        """Whether a SIGTERM that ended the main step was sent to the whole job.

        Slurm signals the steps of a job before the supervisor, so wait briefly for the supervisor's
        signal.
        """
        deadline = time.monotonic() + TOLD_AFTER_S
        by_signal = code in {128 + signal.SIGTERM, -signal.SIGTERM}
        while by_signal and self._context.slurm_id and time.monotonic() < deadline:
            if self._signals.stop:
                break
            time.sleep(LOOK_EVERY_S)
        return bool(self._signals.stop)

    def _until(self, reached: Callable[[], bool]) -> JobEnding | None:
        """Watch all components until `reached` returns True. Return how the job ended if it ends
        before.
        """
        draining = False
        while not reached():
            if self._lease.lost.is_set():
                return JobEnding("failed", LEASE_HELD, "another job now runs this shard")
            if self._signals.stop:
                return self._cancelled()
            for service in self._services:
                failure = service.look()
                # The main step may have ended in the meantime, and services after it.
                if failure is not None and not (self._main.code is not None and reached()):
                    return JobEnding.by(failure)
            if self._signals.drain and not draining:
                draining = True
                if not self._main.running:
                    return JobEnding(
                        "drained", DRAINED, "the time limit is near, and it was not ready"
                    )
                self._context.say("the time limit is near: no further rollouts are started")
                self._main.drain(self._context.task.job.warning_s)
            self._main.look()
            self._tell_state()
            time.sleep(LOOK_EVERY_S)
        return None

    def _stop_all(self) -> None:
        """End all components: the main step first, then the services that it uses."""
        if self._signals.stop and self._context.slurm_id:
            self._main.admit_no_more()
            # Slurm has told its step, too; `srun`, told by us, would kill it.
            self._main.wait(processes.GRACE_S)
        self._stopped_by_itself = not (self._main.running and self._context.slurm_id)
        self._main.end()
        for service in reversed(self._services):
            service.stop()
        self._context.ports.close()

    def _settled(self, ending: JobEnding) -> JobEnding:
        """Count the shard's rows, write the done file if all have ended, and return the final
        ending.
        """
        files = self._shard
        if files is None or ending.status == "refused":
            return ending
        try:
            counts = shard.count(files)
            if ending.status != "done":
                return replace(ending, counts=counts)
            if not shard.is_done(files):
                shard.write_done(files, counts, self._done_by())
        except shard.NotDone as error:
            return self._not_done(ending, error)
        except (OSError, ValueError, KeyError) as error:
            return JobEnding(
                "failed", NOT_DONE, f"cannot count the rows of {files.name}: {error!r}"
            )
        return replace(ending, counts=counts)

    def _not_done(self, ending: JobEnding, error: shard.NotDone) -> JobEnding:
        """Return how a job ended whose shard has rows left, or has no rows."""
        if ending.status != "done":
            return ending
        if self._signals.stop:  # which the main step took for a good end
            return self._cancelled()
        name = self._main.component.name
        reason = f"{name} ended without an error, but some rollouts did not end: {error}"
        return JobEnding("failed", NOT_DONE, reason, name, self._main.tail())

    def _done_by(self) -> dict[str, object]:
        context, shard_spec = self._context, self._context.task.shard
        return {
            "shard": shard_spec.name if shard_spec else None,
            "first_task": shard_spec.first_task if shard_spec else None,
            "last_task": shard_spec.last_task if shard_spec else None,
            "code_version": context.task.run.code_version,
            "submission": context.task.run.submission,
            "job_id": context.job_id,
            "restart": context.restart,
            "time": time.time(),
        }

    def _finish(self, ending: JobEnding) -> JobEnding:
        """Write how the job ended to the log, the result file and the ledger."""
        context = self._context
        self._finished = True
        self._tell_state(now=True)
        try:
            self._write_result(ending)
        except OSError as error:
            context.say(f"cannot write {context.files.result}: {error}")
        # A line of the ledger has no log beside it, so it holds the log's last error too.
        reason = reason_of({"reason": ending.reason, "log": ending.log})
        context.record("ended", **{**_ending_fields(ending), "reason": reason})
        if ending.status in {"failed", "refused"}:
            for name in context.task.dependants:
                why = f"{context.task.unit} {ending.status}: {reason}"
                context.record("never_starts", dependant=name, reason=why)
        for line in ending.log.splitlines():
            context.say(f"  | {line}")
        counted = f" ({ending.counts.said()})" if ending.counts else ""
        context.say(f"{context.task.unit}: {ending.status}{counted} {ending.reason}".rstrip())
        return ending

    def _write_result(self, ending: JobEnding) -> None:
        result = {**_ending_fields(ending), "log": ending.log, "time": time.time()}
        write_object(self._context.files.result, result)

    def _tell_state(self, *, now: bool = False) -> None:
        """Write `state.json`, at most once per `TOLD_EVERY_S` unless `now`."""
        if not now and time.monotonic() - self._told_at < TOLD_EVERY_S:
            return
        self._told_at = time.monotonic()
        states = [service.state for service in self._services]
        main = self._main
        runs = "running" if main.running else "waiting" if main.code is None else "ended"
        state = {
            "servers": {
                "expected": len(states),
                "ready": states.count(ServiceState.READY),
                "failed": states.count(ServiceState.FAILED),
            },
            "components": [service.told() for service in self._services],
            "main": {
                "name": main.component.name,
                "state": runs,
                "code": main.code,
                "log": main.log.name if main.log else None,
            },
            "job_id": self._context.job_id,
            "restart": self._context.restart,
            "time": time.time(),
        }
        try:
            write_object(self._context.files.state, state)
        except OSError as error:
            self._context.say(f"cannot write {self._context.files.state}: {error}")


def _ending_fields(ending: JobEnding) -> dict[str, object]:
    """Return the ending as fields for the ledger and the result file, without the log."""
    fields: dict[str, object] = {
        name: getattr(ending, name)
        for name in JobEnding.__dataclass_fields__
        if name not in {"log", "counts"}
    }
    if ending.counts is not None:
        fields["counts"] = {**asdict(ending.counts), "left": ending.counts.left}
    return fields
