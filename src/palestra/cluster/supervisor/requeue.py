"""Back into the queue: a job that drained before its time limit, if it got anywhere."""

from __future__ import annotations

import signal
import time

from palestra.cluster.layout import ShardFiles
from palestra.cluster.supervisor import shard, slurm
from palestra.cluster.supervisor.context import Context
from palestra.cluster.supervisor.supervise import Ended

MOST_REQUEUES = 100


def requeue_if_worthwhile(context: Context, ended: Ended, before: int | None) -> int:
    """The exit code. A drained job goes back into the queue, if its last start got anywhere.

    `before`: rollouts that were left when it started.
    """
    after = ended.counts.left if ended.counts else None
    progress = before is not None and after is not None and after < before
    if not (
        ended.status == "drained" and context.slurm_id and context.task.job.requeue and progress
    ):
        return ended.code
    if context.restart >= MOST_REQUEUES:
        return ended.code
    context.record("requeued", reason="the time limit was near", left=after)
    context.say(f"back into the queue: {after} rollouts are left, of {before} at this start")
    try:
        slurm.requeue(context.env["SLURM_JOB_ID"])
    except slurm.SlurmUnreachable as error:
        context.say(f"cannot be put back into the queue: {error}")
        return ended.code
    # Slurm ends this process in a moment; nothing is left to lose, so it may be at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(60.0)
    return ended.code


def left_in(files: ShardFiles) -> int | None:
    """Rollouts of a shard that have not ended; None when that cannot be told yet."""
    try:
        return shard.count(files).left
    except (shard.NotDone, OSError, ValueError, KeyError):
        return None
