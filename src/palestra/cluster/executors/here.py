"""The executor that runs jobs on this machine, one after the other, inside the submitting command.

The command returns when all jobs have ended. The state of the jobs is in `queue.json`, next to the
plan. The file is replaced as a whole at each change, so other commands can read it.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from palestra.cluster.executors.executor import (
    JobState,
    Phase,
    killed_by,
    log_files,
    unit_ids,
)
from palestra.cluster.layout import RunFiles, SubmissionFiles, log_name
from palestra.cluster.plan import After, PlannedJob, Run, seconds_of
from palestra.cluster.records import read_object, reason_of
from palestra.errors import RunFailed
from palestra.rollouts import write_json
from palestra.system import Process, start

STATE_FILE: Final = "queue.json"
PREFIX: Final = "local"
GRACE_S: Final = 30.0
"""The time between SIGTERM and SIGKILL."""
LOOK_EVERY_S: Final = 0.2
JOB_ID: Final = "PALESTRA_JOB_ID"
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def to_stderr(text: str) -> None:
    """Print a message to stderr at once, while jobs run."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class HereExecutor:
    """Runs jobs in their order. `report` is called with a line when a job starts or ends."""

    def __init__(self, report: Callable[[str], None] = to_stderr) -> None:
        self._tell = report

    def submit(self, run: Run, submitted: Callable[[PlannedJob, str], None], /) -> None:
        """Run all jobs of a run. Raises RunFailed: a job did not succeed."""
        files = RunFiles(Path(run.output_dir)).submission(run.submission)
        for job in run.jobs:
            submitted(job, job_id(files, job))
        if not Queue(run, self._tell).run():
            bad = [
                f"{unit.rpartition(':')[2]}: {job_state.reason or job_state.state.value}"
                for unit, job_state in self.status(job_id(files, job) for job in run.jobs).items()
                if job_state.state is not Phase.DONE
            ]
            raise RunFailed(
                f"some jobs failed: {'; '.join(bad)}",
                hint=f"the logs are in {run.log_dir}; `palestra cluster retry-failed "
                f"{run.output_dir}` continues the run",
            )

    def gpu_hours(self, ids: Iterable[str], /) -> float | None:
        """Return None: nobody counts GPU hours on this machine."""
        del ids
        return None

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        answers: dict[str, JobState] = {}
        for job in ids:
            answers.update(states(job) or {job: JobState(Phase.UNKNOWN)})
        return answers

    def cancel(self, ids: Iterable[str], /) -> None:
        """Stop the commands that run these jobs. Each command's whole submission is cancelled with
        it.

        Raises RunFailed: a command does not end in time, or runs on another machine.
        """
        for folder in {Path(job.partition(":")[2].rpartition(":")[0]) for job in ids}:
            queue = QueueState.read(folder)
            if queue is None or not queue.runs:
                continue
            if not queue.process.is_here:
                raise RunFailed(
                    f"the jobs of {folder} run in process {queue.process.pid} on "
                    f"{queue.process.host}, another machine",
                    hint="run the cancel command on that machine",
                )
            os.kill(queue.process.pid, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S + 10.0
            while not queue.process.is_gone:
                if time.monotonic() > deadline:
                    raise RunFailed(
                        f"process {queue.process.pid}, which runs the jobs of {folder}, does not "
                        "end"
                    )
                time.sleep(LOOK_EVERY_S)

    def logs(self, run: Run, unit: str = "", /) -> tuple[Path, ...]:
        return log_files(Path(run.log_dir), unit)


def job_id(files: SubmissionFiles, job: PlannedJob) -> str:
    """Return the id of a local job. It contains the folder where the job's state is stored."""
    return f"{PREFIX}:{files.folder}:{job.name}"


@dataclass(frozen=True, slots=True)
class QueueState:
    """The process that runs the jobs, and the state of each unit."""

    process: Process
    units: Mapping[str, JobState]

    @classmethod
    def read(cls, folder: Path) -> "QueueState | None":
        """Read the state file of a submission's folder. None when the file does not exist."""
        try:
            stored = orjson.loads((folder / STATE_FILE).read_bytes())
        except FileNotFoundError:
            return None
        units = {
            unit: JobState(Phase(fields["state"]), fields["reason"], fields["exit_code"])
            for unit, fields in stored["units"].items()
        }
        return cls(Process(**stored["process"]), units)

    @property
    def runs(self) -> bool:
        """Whether a unit waits or runs. A process may live on after its queue ended, so check the
        units too.
        """
        return not self.process.is_gone and not all(s.state.over for s in self.units.values())

    def seen(self) -> Mapping[str, JobState]:
        """Return the state of each unit. If the queue's process is gone, units not yet ended have
        failed.
        """
        if not self.process.is_gone:
            return self.units
        gone = JobState(Phase.FAILED, "the process that ran the jobs is gone")
        return {unit: s if s.state.over else gone for unit, s in self.units.items()}


class Queue:
    """Runs the jobs of one submission, and the tasks of each array, one after another."""

    def __init__(self, run: Run, report: Callable[[str], None] = lambda _: None) -> None:
        self._run = run
        self._files = RunFiles(Path(run.output_dir)).submission(run.submission)
        self._tell = report
        self._stopping = False
        self._ids = {job.name: job_id(self._files, job) for job in run.jobs}
        self._units = {
            unit: JobState(Phase.QUEUED)
            for job in run.jobs
            for unit in unit_ids(job, self._ids[job.name])
        }

    def run(self) -> bool:
        """Run every job whose dependencies allow it. Return whether all units succeeded."""
        Path(self._run.log_dir).mkdir(parents=True, exist_ok=True)
        self._write()
        with _on_stop(self.stop):
            for job in self._run.jobs:
                obstacle = self._obstacle(job)
                if obstacle:
                    self._set_job(job, JobState(Phase.CANCELLED, obstacle))
                    self._tell(f"{job.name}: not started: {obstacle}")
                    continue
                for task in range(len(job.shards)) if job.array else range(1):
                    self._task(job, task)
        return all(s.state is Phase.DONE for s in self._units.values())

    def stop(self) -> None:
        """End the running job and start no more. Safe from any thread and from a signal handler."""
        self._stopping = True

    def _is_stopping(self) -> bool:
        """Whether `stop` was called. Read anew each time, since a signal handler may call it at any
        moment.
        """
        return self._stopping

    def _obstacle(self, job: PlannedJob) -> str:
        """Return why a job may not start; empty when it may."""
        if self._is_stopping():
            return "stopped"
        for after in job.after:
            bad = next((s for s in self._states_of(after) if s.state is not Phase.DONE), None)
            if bad is not None and after.kind == "afterok":
                return (
                    f"depends on {after.job or after.job_id}, which {bad.state.value}"
                    f"{_in_brackets(bad.reason)}"
                )
        return ""

    def _states_of(self, after: After) -> tuple[JobState, ...]:
        if after.job:
            earlier = self._run.job(after.job)
            return tuple(self._units[unit] for unit in unit_ids(earlier, self._ids[after.job]))
        return tuple(states(after.job_id).values()) or (JobState(Phase.UNKNOWN),)

    def _task(self, job: PlannedJob, task: int) -> None:
        unit = unit_ids(job, self._ids[job.name])[task]
        unit_name = job.shards[task] if job.shards else job.name
        if self._is_stopping():
            self._set(unit, JobState(Phase.CANCELLED, "stopped"))
            return
        self._set(unit, JobState(Phase.RUNNING))
        self._tell(f"{unit_name}: started")
        code, reason = self._supervised(job, task, unit_name)
        if code == 0:
            end_state = JobState(Phase.DONE, exit_code="0")
        elif self._is_stopping():
            end_state = JobState(Phase.CANCELLED, "stopped", str(code))
        else:
            why = reason or self._failure(job, task, code)
            end_state = JobState(Phase.FAILED, why, str(code))
        self._set(unit, end_state)
        self._tell(f"{unit_name}: {end_state.state.value}{_in_brackets(end_state.reason)}")

    def _failure(self, job: PlannedJob, task: int, code: int) -> str:
        """Return why a job failed: the supervisor's reason if it wrote one, else the signal or exit
        code.
        """
        result = None
        with contextlib.suppress(OSError):
            result = read_object(self._files.job(job.name, task if job.array else None).result)
        if reason := reason_of(result or {}):
            return f"{reason} (exit code {code})"
        return killed_by(str(code)) or f"exit code {code}"

    def _supervised(self, job: PlannedJob, task: int, unit_name: str) -> tuple[int, str]:
        """Run the supervisor of one task. Return its exit code, and "the time limit" if that ended
        it.
        """
        suffix = f"_{task}" if job.array else ""
        ident = f"{PREFIX}-{os.getpid()}-{self._run.submission}-{job.name}{suffix}"
        log = Path(self._run.log_dir) / log_name(ident, unit_name, "supervisor")
        argv = [self._run.python, str(self._files.supervisor), str(self._files.plan), job.name]
        with log.open("ab") as out:
            process = start(
                [*argv, "--task", str(task)],
                env={**os.environ, JOB_ID: ident},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        return self._wait(process, job)

    def _wait(self, process: "subprocess.Popen[bytes]", job: PlannedJob) -> tuple[int, str]:
        """Wait for the supervisor and signal it as Slurm would: SIGUSR1 before the time limit,
        SIGTERM at the limit, then SIGKILL.
        """
        limit_s = seconds_of(job.time_limit) if job.time_limit else math.inf
        due = [(limit_s - job.warning_s, signal.SIGUSR1), *_ending(limit_s)]
        began = time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout=LOOK_EVERY_S)
                at_limit = len(due) < len(_ending(limit_s)) and not self._is_stopping()
                return code, "the time limit" if at_limit else ""
            elapsed_s = time.monotonic() - began
            if self._is_stopping() and elapsed_s < limit_s:
                limit_s = elapsed_s
                due = _ending(limit_s)
            while due and elapsed_s >= due[0][0]:
                process.send_signal(due.pop(0)[1])

    def _set_job(self, job: PlannedJob, job_state: JobState) -> None:
        for unit in unit_ids(job, self._ids[job.name]):
            self._set(unit, job_state)

    def _set(self, unit: str, job_state: JobState) -> None:
        self._units[unit] = job_state
        self._write()

    def _write(self) -> None:
        state = {
            "process": asdict(Process.this()),
            "units": {unit: asdict(job_state) for unit, job_state in self._units.items()},
        }
        write_json(self._files.folder / STATE_FILE, state)


def _in_brackets(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _ending(at_s: float) -> list[tuple[float, signal.Signals]]:
    """Return the signals that end a job, each with the time (seconds since job start) to send it."""
    return [(at_s, signal.SIGTERM), (at_s + GRACE_S, signal.SIGKILL)]


@contextlib.contextmanager
def _on_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` when a stop signal arrives. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.signal(number, lambda *_: stop()) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def states(job: str) -> Mapping[str, JobState]:
    """Return the states of a job's units, or of the one unit with that id; empty for an unknown id."""
    prefix, _, folder_and_unit = job.partition(":")
    folder, _, name = folder_and_unit.rpartition(":")
    if prefix != PREFIX or not name:
        return {}
    queue = QueueState.read(Path(folder))
    if queue is None:
        return {}
    return {
        unit: job_state
        for unit, job_state in queue.seen().items()
        if unit == job or (unit.startswith(f"{job}_") and unit[len(job) + 1 :].isdecimal())
    }
