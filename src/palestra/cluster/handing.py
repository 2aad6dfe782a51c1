"""Handing a run whose folder is written to its executor, with every id in the ledger at once."""

import time
from pathlib import Path

from palestra.cluster.executors import Executor
from palestra.cluster.layout import RunFiles
from palestra.cluster.ledger import append
from palestra.cluster.plan import Job, Run
from palestra.cluster.registry import Known, remember
from palestra.errors import RunFailed


def hand_over(run: Run, executor: Executor, *, timeout_s: float = 60.0) -> dict[str, str]:
    """Submit a run whose folder is written; its jobs' ids, which stand in the ledger by then."""
    files = RunFiles(Path(run.output_dir))
    ids: dict[str, str] = {}

    def on_submitted(job: Job, job_id: str) -> None:
        ids[job.name] = job_id
        append(
            files.ledger,
            {
                "event": "submitted",
                "time": time.time(),
                "submission": run.submission,
                "job": job.name,
                "job_id": job_id,
                "shards": list(job.shards),
            },
        )

    try:
        remember(Known(run.name, run.output_dir, run.executor, timeout_s))
    except OSError as error:
        raise RunFailed(
            f"the run's name cannot be remembered: {error}",
            hint="PALESTRA_STATE_DIR says in which folder such things are kept",
        ) from error
    try:
        executor.submit(run, on_submitted)
    except RunFailed as error:
        if run.executor != "slurm" or not ids:
            raise
        there = ", ".join(f"{name} {job_id}" for name, job_id in ids.items())
        raise type(error)(
            f"{error.message}; submitted by then: {there}",
            hint=f"`palestra cluster retry-failed {run.output_dir}` submits what is missing, "
            "`palestra cluster cancel` ends what there is",
        ) from error
    return ids
