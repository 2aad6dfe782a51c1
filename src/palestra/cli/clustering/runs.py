"""`palestra cluster`: a run is submitted, and followed.

`rollouts`, `run-cmd` and the field's `nemo_gym_rollouts` go from flags to a submission; `status`,
`logs`, `cancel` and `retry-failed` read its ledger.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from palestra.cli.console import notice, say, say_json
from palestra.cli.tables import print_table
from palestra.cluster import (
    Executor,
    Run,
    RunFiles,
    RunStatus,
    Standing,
    Submission,
    UnitStatus,
    executor_for,
    folder_of,
    ledger,
    read_run,
    resubmit,
    rollouts,
    run_cmd,
    status_of,
    tail,
)
from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.schema import JsonDict
from palestra.settings import FollowArgs, LogsArgs, config_list
from palestra.system import shown

UNDERWAY = 3
"""Exit code of `status` while something waits or runs, and nothing has failed."""


def submit(options: Mapping[str, Any], overrides: Sequence[str]) -> int:
    """Submit what the flags ask for, and say what became of it."""
    config_paths = [path for text in options["config_paths"] for path in config_list(text)]
    _report(rollouts(extra=overrides, tell=notice, **{**options, "config_paths": config_paths}))
    return 0


def submit_command(options: Mapping[str, Any], words: Sequence[str]) -> int:
    """Submit the command that the flags ask for, and say what became of it."""
    submission = run_cmd(extra=words, tell=notice, **options)
    run = submission.run
    (job,) = run.jobs
    say(f"{run.name}: {submission.job_ids.get(job.name, 'not submitted')}")
    say(f"plan, script and logs: {shown(_run_folder(submission))}")
    if submission.job_ids and run.executor != "none":
        say(f"follow it with: palestra cluster status {run.output_dir}")
    return 0


def _run_folder(submission: Submission) -> Path:
    """The output folder of a run, outside containers."""
    return submission.folder.parent.parent


def _report(submission: Submission) -> None:
    """What a user does next."""
    run = submission.run
    wanted = {name for job in run.jobs for name in job.shards}
    rows = sum(shard.rows or 0 for shard in run.shards if shard.name in wanted)
    say(f"{run.name}: {rows} rollouts in {len(wanted)} shards -> {run.output_dir}")
    for job in run.jobs:
        tasks = f"{len(job.shards)} shards" if job.shards else "all shards"
        say(f"  {job.name:<12} {submission.job_ids.get(job.name, 'not submitted'):<12} {tasks}")
    say(f"plan and scripts: {shown(submission.folder)}")
    if submission.job_ids and run.executor != "none":
        say(f"follow it with: palestra cluster status {run.output_dir}")
    merged = RunFiles(_run_folder(submission))
    for path in (merged.merged.output, merged.reward_profiling, merged.aggregate_metrics):
        if run.executor == "none" and submission.job_ids and path.exists():
            say(f"  {shown(path)}")


def status(args: FollowArgs) -> int:
    """Show a run; 0 when all is done, 1 when something will not be, 3 while it is under way."""
    _, found = _looked_at(args.run)
    if args.as_json:
        say_json(_told(found))
    else:
        _show(found)
    if found.done:
        return 0
    over = [one for one in found.units if not one.standing.active]
    return UNDERWAY if all(one.standing is Standing.DONE for one in over) else 1


def _looked_at(given: str) -> tuple[RunFiles, RunStatus]:
    files = folder_of(given)
    run = read_run(files)
    return files, status_of(files, run, _executor(run))


def _executor(run: Run) -> Executor:
    return executor_for(run.executor, timeout_s=run.command_timeout_s)


def _told(found: RunStatus) -> JsonDict:
    return {
        "run": found.run.name,
        "output_dir": found.run.output_dir,
        "executor": found.run.executor,
        "done": found.done,
        "active": found.active,
        "counts": dict(found.counts()),
        "rollouts": dict(found.rollouts()),
        "units": [_unit(one) for one in found.units],
    }


def _unit(one: UnitStatus) -> JsonDict:
    return {
        "name": one.unit.name,
        "kind": "shard" if one.unit.is_shard else "job",
        "job": one.unit.job,
        "job_id": one.unit.job_id,
        "submission": one.unit.submission,
        "standing": one.standing.value,
        "reason": one.reason,
        "restarts": one.restarts,
        "rollouts": dict(one.rollouts),
        "servers": dict(one.servers),
        "components": [dict(component) for component in one.components],
    }


def _show(found: RunStatus) -> None:
    rows = [
        [
            one.unit.name,
            one.standing.value,
            _progress(one),
            one.unit.job_id.rpartition(":")[2],
            one.reason,
        ]
        for one in found.units
    ]
    print_table(("unit", "standing", "rollouts", "job", "reason"), rows, right="rollouts")
    counts = ", ".join(f"{name} {number}" for name, number in sorted(found.counts().items()))
    total = found.rollouts()
    if not found.run.shards:
        say(f"{found.run.name}: {counts}")
        return
    say(
        f"{found.run.name}: {counts}; rollouts expected {total['expected']} = scored "
        f"{total['scored']} + failed {total['failed']}"
        + (f" + left {total['left']}" if total["left"] else "")
    )


def _progress(one: UnitStatus) -> str:
    if not one.rollouts:
        return "-"
    return f"{one.rollouts['expected'] - one.rollouts['left']}/{one.rollouts['expected']}"


def logs(args: LogsArgs) -> int:
    """Show the ends of logs, of what has failed unless a unit is named."""
    files = folder_of(args.run)
    run = read_run(files)
    executor, unit, lines = _executor(run), args.unit, args.lines
    if unit is not None:
        names = [unit]
    else:
        found = status_of(files, run, executor)
        names = [one.unit.name for one in found.units if one.standing is Standing.FAILED]
        if not names:
            notice("nothing has failed; name a shard or a job with --of to see its logs")
    paths = [path for name in names for path in executor.logs(run, name)]
    if unit is not None and not paths:
        _check_known(run, unit)
    if args.as_json:
        told = [{"path": str(path), "end": _end(tail(path), lines)} for path in paths]
        say_json(told)
        return 0
    for path in paths:
        say(f"==> {shown(path)}")
        say(_end(tail(path), lines))
    if names and not paths:
        notice(f"no logs of {', '.join(names)} in {run.log_dir}")
    return 0


def _check_known(run: Run, name: str) -> None:
    """Raise ConfigError for what is neither a shard nor a job of the run."""
    known = [*(shard.name for shard in run.shards), *(job.name for job in run.jobs)]
    if name not in known:
        raise ConfigError(
            f"--of {name}: the run has no such shard or job{did_you_mean(name, known)}",
            hint=f"`palestra cluster status {run.output_dir}` lists them",
        )


def _end(text: str, lines: int) -> str:
    return "\n".join(text.splitlines()[-lines:])


def cancel(args: FollowArgs) -> int:
    """Cancel what has not ended."""
    files, found = _looked_at(args.run)
    ids = sorted({job_id for one in found.units for job_id in one.open_ids})
    _executor(found.run).cancel(ids)
    for one in found.units:
        for job_id in one.open_ids:
            _record_cancelled(files, one, job_id)
    if args.as_json:
        say(orjson.dumps({"cancelled": ids}).decode())
    else:
        say(f"cancelled {len(ids)} jobs" if ids else "nothing waits or runs")
    return 0


def _record_cancelled(files: RunFiles, one: UnitStatus, job_id: str) -> None:
    event = {
        "event": "cancelled",
        "time": time.time(),
        "submission": one.unit.submission,
        "job": one.unit.job,
        "unit": one.unit.name,
        "job_id": job_id,
    }
    ledger.append(files.ledger, event)


def _nothing_to_retry(underway: Mapping[str, int]) -> str:
    if not underway:
        return "nothing to submit again: all is done"
    numbers = ", ".join(f"{count} {standing}" for standing, count in underway.items())
    return f"nothing to submit again: {numbers}, and nothing has failed"


def retry_failed(args: FollowArgs) -> int:
    """Submit again what is neither done nor active, and the merge and profile after it."""
    _, found = _looked_at(args.run)
    stuck = [one for one in found.units if one.standing is Standing.NEVER_STARTS]
    ids = sorted({one.unit.job_id for one in stuck if one.unit.job_id})
    shards = [
        one.unit.name
        for one in found.units
        if one.unit.is_shard and one.standing is not Standing.DONE and not one.standing.active
    ]
    followers = [
        one
        for one in found.units
        if not one.unit.is_shard and one.standing is not Standing.DONE and not one.standing.active
    ]
    if not shards and not followers:
        counts = found.counts()
        underway = {
            one.value: counts[one] for one in (Standing.RUNNING, Standing.QUEUED) if one in counts
        }
        if args.as_json:
            say(orjson.dumps({"submitted": [], "underway": underway}).decode())
        else:
            say(_nothing_to_retry(underway))
        return 0
    # The last of a shard's jobs: before it has ended, another may still finish the shard.
    active = [
        (one.unit.name, one.open_ids[-1])
        for one in found.units
        if one.unit.is_shard and one.open_ids
    ]
    run = resubmit(found.run, shards, active=active, stuck=ids)
    if args.as_json:
        say(orjson.dumps({"submission": run.submission, "submitted": shards}).decode())
    else:
        say(f"submission {run.submission}: {', '.join(shards) or 'merge and profile'}")
    return 0
