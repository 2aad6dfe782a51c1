"""`python supervisor.pyz PLAN JOB [--task N]`: run one job; exit 0 only if the job succeeded.

The supervisor also starts this program with `--mind`, `--mind-step`, `--mind-service`, `--port` and
`--keyed`: see `processes`, `context` and `keyed`.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from palestra.cluster import shard
from palestra.cluster.layout import ShardFiles
from palestra.cluster.plan import KEYED
from palestra.cluster.ports import PortLocks, address_here
from palestra.cluster.supervisor import keyed, processes, slurm
from palestra.cluster.supervisor.context import PORT, Context, nodes_of
from palestra.cluster.supervisor.steps import BadPlan, read_task
from palestra.cluster.supervisor.supervise import JobEnding, Signals, Supervision

BAD_PLAN = 2
MOST_REQUEUES = 100


def _choose_port(arguments: Sequence[str]) -> int:
    low, high = int(arguments[0]), int(arguments[1])
    port = PortLocks().choose((low, high) if high else None)
    print(port, address_here())  # noqa: T201  # its answer
    return 0


SMALL_TASKS: dict[str, Callable[[Sequence[str]], int]] = {
    processes.MIND: processes.mind,
    processes.MIND_STEP: functools.partial(processes.mind, step=True),
    processes.MIND_SERVICE: functools.partial(processes.mind, step=True, hold_s=processes.GRACE_S),
    KEYED: keyed.run_keyed,
    keyed.MODULE: keyed.run_module,
    PORT: _choose_port,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job, or one of the small tasks such as `--mind`, and return the exit code.

    `argv`: default is the command line.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    small = SMALL_TASKS.get(arguments[0]) if arguments else None
    if small is not None:
        return small(arguments[1:])
    options = _parsed(arguments)
    try:
        task = read_task(options.plan, options.job, options.task)
        context = Context(task, dict(os.environ), PortLocks(), nodes=nodes_of(task, os.environ))
    except (BadPlan, slurm.SlurmUnreachable, KeyError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201  # its log
        return BAD_PLAN
    return _run(context)


def _run(context: Context) -> int:
    signals = Signals()
    supervision = Supervision(context, signals)

    def drain(_number: int, _frame: FrameType | None) -> None:
        signals.drain = True

    def stop(number: int, _frame: FrameType | None) -> None:
        supervision.told_to_stop(number)

    signal.signal(signal.SIGUSR1, drain)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    own_shard = context.task.shard
    before = _left_in(context.run.shard(own_shard.name)) if own_shard else None
    if before is None and own_shard:
        before = own_shard.rows
    ending = supervision.run()
    return _requeue_if_worthwhile(context, ending, before)


def _requeue_if_worthwhile(context: Context, ending: JobEnding, before: int | None) -> int:
    """Put a drained job (one that stopped near its time limit) back into the queue if this start
    made progress. Return the exit code.

    `before`: the number of rollouts that were left at the start.
    """
    after = ending.counts.left if ending.counts else None
    progress = before is not None and after is not None and after < before
    if not (
        ending.status == "drained" and context.slurm_id and context.task.job.requeue and progress
    ):
        return ending.code
    if context.restart >= MOST_REQUEUES:
        return ending.code
    context.record("requeued", reason="the time limit was near", left=after)
    context.say(
        f"the job is back in the queue: {after} rollouts are left, of {before} when it started"
    )
    try:
        slurm.requeue(context.slurm_id)
    except slurm.SlurmUnreachable as error:
        context.say(f"the job cannot be put back into the queue: {error}")
        return ending.code
    # Slurm ends this process in a moment; nothing is left to lose, so it may be at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(60.0)
    return ending.code


def _left_in(files: ShardFiles) -> int | None:
    """Return the number of a shard's rollouts that have not ended; None when it is not known yet."""
    try:
        return shard.count(files).left
    except (shard.NotDone, OSError, ValueError, KeyError):
        return None


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="supervisor.pyz", description="Run one job of a plan.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("job")
    parser.add_argument("--task", type=int, default=int(os.environ.get("SLURM_ARRAY_TASK_ID", "0")))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
