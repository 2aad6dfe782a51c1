"""On this machine, inside the command: it returns when all jobs have ended, one after the other.

How they are stands in `queue.json` beside the plan, written whole at each change, so that another
command can look at it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import orjson

from palestra.cluster.endings import killed_by, reason_of
from palestra.cluster.executors.executor import JobState, State, log_files, unit_ids
from palestra.cluster.layout import RunFiles, SubmissionFiles, log_name
from palestra.cluster.plan import After, Job, Run
from palestra.cluster.records import read_object
from palestra.cluster.times import seconds_of
from palestra.errors import RunFailed
from palestra.rollouts.journal import write_json
from palestra.system import Process, start

STATE_FILE: Final = "queue.json"
PREFIX: Final = "local"
GRACE_S: Final = 30.0
"""From SIGTERM to SIGKILL."""
LOOK_EVERY_S: Final = 0.5
JOB_ID: Final = "PALESTRA_JOB_ID"
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def to_stderr(text: str) -> None:
    """Tell a user something while jobs run."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class HereExecutor:
    """Runs jobs in their order. `tell`: is told when something starts or ends."""

    def __init__(self, tell: Callable[[str], None] = to_stderr) -> None:
        self._tell = tell

    def submit(self, run: Run, submitted: Callable[[Job, str], None], /) -> None:
        """Run them all. Raises RunFailed when one did not go well."""
        files = RunFiles(Path(run.output_dir)).submission(run.submission)
        for job in run.jobs:
            submitted(job, job_id(files, job))
        if not Queue(run, self._tell).run():
            bad = [
                f"{unit.rpartition(':')[2]}: {told.reason or told.state.value}"
                for unit, told in self.status(job_id(files, job) for job in run.jobs).items()
                if told.state is not State.DONE
            ]
            raise RunFailed(
                f"not everything went well: {'; '.join(bad)}",
                hint=f"the logs are in {run.log_dir}; `palestra cluster retry-failed "
                f"{run.output_dir}` goes on from here",
            )

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        found: dict[str, JobState] = {}
        for job in ids:
            found.update(states(job) or {job: JobState(State.UNKNOWN)})
        return found

    def cancel(self, ids: Iterable[str], /) -> None:
        """End the commands that run these jobs: a submission is cancelled as a whole here.

        Raises RunFailed when one does not end in time.
        """
        for folder in {Path(job.partition(":")[2].rpartition(":")[0]) for job in ids}:
            queue = QueueState.read(folder)
            if queue is None or not queue.runs:
                continue
            if not queue.process.is_here:
                raise RunFailed(
                    f"process {queue.process.pid} of {queue.process.host} runs {folder}",
                    hint="cancel it on that machine",
                )
            os.kill(queue.process.pid, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S + 10.0
            while not queue.process.is_gone:
                if time.monotonic() > deadline:
                    raise RunFailed(
                        f"process {queue.process.pid}, which runs {folder}, does not end"
                    )
                time.sleep(LOOK_EVERY_S / 5)

    def logs(self, run: Run, unit: str = "", /) -> tuple[Path, ...]:
        return log_files(Path(run.log_dir), unit)


def job_id(files: SubmissionFiles, job: Job) -> str:
    """The id of a job here: it says where its state stands."""
    return f"{PREFIX}:{files.folder}:{job.name}"


@dataclass(frozen=True, slots=True)
class QueueState:
    """The process that runs the jobs, and how each unit is."""

    process: Process
    units: Mapping[str, JobState]

    @classmethod
    def read(cls, folder: Path) -> "QueueState | None":
        """None while nobody has written one."""
        try:
            held = orjson.loads((folder / STATE_FILE).read_bytes())
        except FileNotFoundError:
            return None
        units = {
            unit: JobState(State(told["state"]), told["reason"], told["exit_code"])
            for unit, told in held["units"].items()
        }
        return cls(Process(**held["process"]), units)

    @property
    def runs(self) -> bool:
        """Whether something waits or runs: a process may outlive the queue that ran inside it."""
        return not self.process.is_gone and not all(told.state.over for told in self.units.values())

    def seen(self) -> Mapping[str, JobState]:
        """The units as they are: without its process, nothing waits or runs any more."""
        if not self.process.is_gone:
            return self.units
        gone = JobState(State.FAILED, "the process that ran the jobs is gone")
        return {u: told if told.state.over else gone for u, told in self.units.items()}


class Queue:
    """Runs the jobs of one submission, and the tasks of an array, one after another."""

    def __init__(self, run: Run, tell: Callable[[str], None] = lambda _: None) -> None:
        self._run = run
        self._files = RunFiles(Path(run.output_dir)).submission(run.submission)
        self._tell = tell
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None
        self._ids = {job.name: job_id(self._files, job) for job in run.jobs}
        self._units = {
            unit: JobState(State.QUEUED)
            for job in run.jobs
            for unit in unit_ids(job, self._ids[job.name])
        }

    def run(self) -> bool:
        """Run everything that may run; whether all of it went well."""
        Path(self._run.log_dir).mkdir(parents=True, exist_ok=True)
        self._write()
        with _on_stop(self.stop):
            for job in self._run.jobs:
                obstacle = self._obstacle(job)
                if obstacle:
                    self._set_job(job, JobState(State.CANCELLED, obstacle))
                    self._tell(f"{job.name}: not started: {obstacle}")
                    continue
                for task in range(len(job.shards)) if job.array else range(1):
                    self._task(job, task)
        return all(told.state is State.DONE for told in self._units.values())

    def stop(self) -> None:
        """End what runs; nothing more starts."""
        self._stopping.set()
        with self._lock:
            if self._running is not None:
                self._running.terminate()

    def _obstacle(self, job: Job) -> str:
        """Why a job may not start; empty when it may."""
        if self._stopping.is_set():
            return "stopped"
        for after in job.after:
            states = self._states_of(after)
            if after.kind == "afterok" and any(told.state is not State.DONE for told in states):
                named = after.job or after.job_id
                bad = next(told for told in states if told.state is not State.DONE)
                return f"depends on {named}, which {bad.state.value}" + (
                    f" ({bad.reason})" if bad.reason else ""
                )
        return ""

    def _states_of(self, after: After) -> tuple[JobState, ...]:
        if after.job:
            earlier = self._run.job(after.job)
            return tuple(self._units[unit] for unit in unit_ids(earlier, self._ids[after.job]))
        return tuple(states(after.job_id).values()) or (JobState(State.UNKNOWN),)

    def _task(self, job: Job, task: int) -> None:
        unit = unit_ids(job, self._ids[job.name])[task]
        named = job.shards[task] if job.shards else job.name
        if self._stopping.is_set():
            self._set(unit, JobState(State.CANCELLED, "stopped"))
            return
        self._set(unit, JobState(State.RUNNING))
        self._tell(f"{named}: started")
        code, reason = self._supervised(job, task, named)
        if code == 0:
            ended = JobState(State.DONE, exit_code="0")
        elif self._stopping.is_set():
            ended = JobState(State.CANCELLED, "stopped", str(code))
        else:
            why = reason or self._told(job, task, code)
            ended = JobState(State.FAILED, why, str(code))
        self._set(unit, ended)
        self._tell(f"{named}: {ended.state.value}{f' ({ended.reason})' if ended.reason else ''}")

    def _told(self, job: Job, task: int, code: int) -> str:
        """Why a job failed: in the words of its supervisor, if it has left any."""
        result = None
        with contextlib.suppress(OSError):
            result = read_object(self._files.job(job.name, task if job.array else None).result)
        said = reason_of(result or {})
        return f"{said} (exit code {code})" if said else killed_by(str(code)) or f"exit code {code}"

    def _supervised(self, job: Job, task: int, named: str) -> tuple[int, str]:
        """The exit code of the supervisor, and why it was ended if it was."""
        suffix = f"_{task}" if job.array else ""
        ident = f"{PREFIX}-{os.getpid()}-{self._run.submission}-{job.name}{suffix}"
        log = Path(self._run.log_dir) / log_name(ident, named, "supervisor")
        argv = [self._run.python, str(self._files.supervisor), str(self._files.plan), job.name]
        with log.open("ab") as out:
            process = start(
                [*argv, "--task", str(task)],
                env={**os.environ, JOB_ID: ident},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        with self._lock:
            self._running = process
        if self._stopping.is_set():
            process.terminate()
        return _waited(process, job, self._stopping)

    def _set_job(self, job: Job, told: JobState) -> None:
        for unit in unit_ids(job, self._ids[job.name]):
            self._set(unit, told)

    def _set(self, unit: str, told: JobState) -> None:
        self._units[unit] = told
        self._write()

    def _write(self) -> None:
        held = {
            "process": asdict(Process.this()),
            "units": {unit: asdict(told) for unit, told in self._units.items()},
        }
        write_json(self._files.folder / STATE_FILE, held)


def _waited(
    process: "subprocess.Popen[bytes]", job: Job, stopping: threading.Event
) -> tuple[int, str]:
    """Wait as a queue does: a warning before the time limit, then an end by force."""
    limit = seconds_of(job.time_limit) if job.time_limit else None
    began = time.monotonic()
    warned = killed = False
    ended_at: float | None = None
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=LOOK_EVERY_S)
            return code, "the time limit" if ended_at and not stopping.is_set() else ""
        now = time.monotonic()
        if limit is not None and not warned and now - began >= limit - job.signal_s:
            warned = True
            process.send_signal(signal.SIGUSR1)
        if ended_at is None and (stopping.is_set() or (limit is not None and now - began >= limit)):
            ended_at = now
            process.terminate()
        if ended_at is not None and not killed and now - ended_at >= GRACE_S:
            killed = True
            process.kill()


@contextlib.contextmanager
def _on_stop(stop: Callable[[], None]) -> Iterator[None]:
    """A signal to stop means `stop`, where signals can be handled at all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(_number: int, _frame: FrameType | None) -> None:
        # In a thread of its own: a handler must not wait for a lock its own thread may hold.
        threading.Thread(target=stop, daemon=True).start()

    earlier = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, what in earlier.items():
            signal.signal(number, what)


def states(job: str) -> Mapping[str, JobState]:
    """The units of a job by its id, or the one unit of that id; empty for what is not known."""
    prefix, _, rest = job.partition(":")
    folder, _, name = rest.rpartition(":")
    if prefix != PREFIX or not name:
        return {}
    queue = QueueState.read(Path(folder))
    if queue is None:
        return {}
    return {
        unit: told
        for unit, told in queue.seen().items()
        if unit == job or (unit.startswith(f"{job}_") and unit[len(job) + 1 :].isdecimal())
    }
