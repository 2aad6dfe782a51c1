"""Handing a run whose folder is written to its executor, with every id in the ledger at once."""

import time
from pathlib import Path

from palestra.cluster.executors import Executor
from palestra.cluster.layout import RunFiles
from palestra.cluster.ledger import append
from palestra.cluster.plan import Job, Run
from palestra.cluster.registry import Known, remember


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

    remember(Known(run.name, run.output_dir, run.executor, timeout_s))
    executor.submit(run, on_submitted)
    return ids
