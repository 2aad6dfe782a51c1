"""On this machine, in the background: a process of its own runs the jobs in their order."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from palestra.cluster.executors.executor import ClusterUnreachable, JobState, State, log_files
from palestra.cluster.executors.queue import GRACE_S, LOOK_EVERY_S, QueueState, job_id, states
from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import Job, Run
from palestra.errors import RunFailed

_QUEUE = "palestra.cluster.executors.queue"


class LocalExecutor:
    """Starts a queue that outlives the command. `timeout_s`: for it to say that it runs."""

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s

    def submit(self, run: Run, submitted: Callable[[Job, str], None], /) -> None:
        files = RunFiles(Path(run.output_dir)).submission(run.submission)
        log = Path(run.log_dir) / f"queue_{run.submission}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        pid = _started([sys.executable, "-m", _QUEUE, str(files.plan)], log)
        deadline = time.monotonic() + self._timeout_s
        while QueueState.read(files.folder) is None:
            if os.waitpid(pid, os.WNOHANG)[0]:
                raise RunFailed(f"the queue ended at once; {log} says why")
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                raise ClusterUnreachable(f"the queue did not begin; {log} may say why")
            time.sleep(0.05)
        for job in run.jobs:
            submitted(job, job_id(files, job))

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        return status_of(ids)

    def cancel(self, ids: Iterable[str], /) -> None:
        cancel_queues(ids)

    def logs(self, run: Run, unit: str = "", /) -> tuple[Path, ...]:
        return log_files(Path(run.log_dir), unit)


def _started(argv: list[str], log: Path) -> int:
    """The number of a process in a session of its own, which nobody here has to wait for."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        argv[0],
        argv,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def status_of(ids: Iterable[str]) -> dict[str, JobState]:
    """How jobs are, by the ids of their units."""
    found: dict[str, JobState] = {}
    for job in ids:
        found.update(states(job) or {job: JobState(State.UNKNOWN)})
    return found


def cancel_queues(ids: Iterable[str]) -> None:
    """End the queues that run these jobs: here, a submission is cancelled as a whole.

    Raises RunFailed when one does not end in time.
    """
    for folder in {Path(job.partition(":")[2].rpartition(":")[0]) for job in ids}:
        queue = QueueState.read(folder)
        if queue is None or not queue.runs:
            continue
        os.kill(queue.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S + 10.0
        while (QueueState.read(folder) or queue).runs:
            if time.monotonic() > deadline:
                raise RunFailed(f"process {queue.process.pid}, which runs {folder}, does not end")
            time.sleep(LOOK_EVERY_S / 5)
