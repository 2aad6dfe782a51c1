"""On this machine, inside the command: it returns when all jobs have ended."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from palestra.cluster.executors.executor import JobState, State, log_files
from palestra.cluster.executors.local import cancel_queues, status_of
from palestra.cluster.executors.queue import Queue, job_id
from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import Job, Run
from palestra.errors import RunFailed


def to_stderr(text: str) -> None:
    """Tell a user something while jobs run."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class NoneExecutor:
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
        return status_of(ids)

    def cancel(self, ids: Iterable[str], /) -> None:
        cancel_queues(ids)

    def logs(self, run: Run, unit: str = "", /) -> tuple[Path, ...]:
        return log_files(Path(run.log_dir), unit)
