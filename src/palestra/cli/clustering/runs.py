"""`palestra cluster`: submit a run, and follow it.

`rollouts`, `run-cmd` and NeMo Gym's `nemo_gym_rollouts` make a submission from flags. `status`,
`logs`, `cancel` and `retry-failed` read the run's ledger.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.analysis import over_tasks
from palestra.api import POLICY, lines_of, read_rows
from palestra.cli.clustering.from_laptop import (
    WATCH_FLAG,
    login_cluster,
    run_by_ssh,
    submit_by_ssh,
)
from palestra.cli.clustering.watching import (
    LOGS_EVERY_S,
    LOGS_PER_STATUS,
    FollowedLogs,
    until_true,
)
from palestra.cli.console import notice, say, say_json
from palestra.cli.tables import print_table
from palestra.cluster import (
    Executor,
    Run,
    RunFiles,
    RunStatus,
    ShardCounter,
    Standing,
    Submission,
    UnitStatus,
    active_units,
    executor_for,
    folder_of,
    ledger,
    read_run,
    resubmit,
    rollouts,
    run_cmd,
    status_of,
    tail,
    with_gpu_hours,
)
from palestra.config import NamedFile, did_you_mean, names_in_files
from palestra.errors import ConfigError
from palestra.fleet import start_timeout_of
from palestra.rollouts import provenance_path
from palestra.schema import JsonDict, RunPaths
from palestra.settings import (
    FollowArgs,
    LogsArgs,
    RetryFailedArgs,
    RunStatusArgs,
    config_list,
    existing_paths,
)
from palestra.system import shown, write_whole

VLLM_CONFIG: Final = "responses_api_models/vllm_model/configs/vllm_model.yaml"
UNDERWAY = 3
"""The exit code of `status` while jobs wait or run and none has failed."""


def submit(options: Mapping[str, Any], overrides: Sequence[str]) -> int:
    """Submit the rollouts that the flags describe, and print the jobs and their ids.

    A word such as `shelf.py` is a config file: an environment in one file.
    """
    files = [word for word in overrides if "=" not in word and NamedFile.parse(word)]
    extra = [word for word in overrides if word not in files]
    config_paths = [path for text in options.get("config_paths", ()) for path in config_list(text)]
    config_paths += files
    chosen = {**options, **({"config_paths": config_paths} if config_paths else {})}
    if cluster := login_cluster(chosen):
        return submit_by_ssh("rollouts", chosen, extra, cluster)
    _report(rollouts(extra=extra, report=notice, **_with_file_rows(chosen)))
    return 0


def _with_file_rows(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the rows of an environment in one file as the input.

    They are written into the output folder. Rows of `--input-file` get the environment's prompt.
    Where no config has a policy, it is an endpoint of Chat Completions, as of vLLM.
    """
    config_paths = list(options.get("config_paths", ()))
    source_files = [file for path in config_paths if (file := NamedFile.parse(path))]
    output_dir, data = options.get("output_dir"), options.get("input_file")
    if not source_files or output_dir is None:
        return dict(options)
    if len(source_files) > 1:
        raise ConfigError(
            f"{' and '.join(map(str, source_files))} are two environments; a run has the tasks of one",
            hint="submit a run for each",
        )
    own_rows = None if data is None else existing_paths(data)
    rows = read_rows(source_files[0], {}, start_timeout_of({}), notice, data=own_rows).rows
    tasks = Path(output_dir).absolute() / f"{Path(source_files[0].path).stem}_tasks.jsonl"
    tasks.parent.mkdir(parents=True, exist_ok=True)
    write_whole(tasks, lines_of(rows))
    for path in own_rows or ():
        if (provenance := provenance_path(path)).is_file():
            write_whole(provenance_path(tasks), provenance.read_bytes())
    if POLICY not in names_in_files(config_paths=config_paths):
        config_paths.append(VLLM_CONFIG)
    return {**options, "config_paths": config_paths, "input_file": str(tasks)}


def submit_command(options: Mapping[str, Any], words: Sequence[str]) -> int:
    """Submit the command that the flags describe, and print its job id."""
    if cluster := login_cluster(options):
        return submit_by_ssh("run-cmd", options, words, cluster)
    submission = run_cmd(extra=words, report=notice, **options)
    run = submission.run
    (job,) = run.jobs
    say(f"{run.name}: {submission.job_ids.get(job.name, 'not submitted')}")
    say(f"plan, script and logs: {shown(_run_folder(submission))}")
    if submission.job_ids and run.executor != "none":
        say(f"follow it with: palestra cluster status {run.output_dir}")
    return 0


def _run_folder(submission: Submission) -> Path:
    """Return the output folder of a run, as its path is outside containers."""
    return submission.folder.parent.parent


def _report(submission: Submission) -> None:
    """Print the jobs of a submission, its files, and the command that follows it."""
    run = submission.run
    shard_names = {name for job in run.jobs for name in job.shards}
    rows = sum(shard.rows or 0 for shard in run.shards if shard.name in shard_names)
    say(f"{run.name}: {rows} rollouts in {len(shard_names)} shards -> {run.output_dir}")
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


def status(args: RunStatusArgs) -> int:
    """Print the state of a run; exit 0 when all is done, 1 when a part ended without success, 3
    while the run is under way.
    """
    watching = [WATCH_FLAG, f"--every={args.every:g}"] if args.watch else []
    if (code := run_by_ssh(args.run, ["status", *_json_flag(args), *watching])) is not None:
        return code
    if args.watch:
        return _watched(args)
    files, run_status = _looked_at(args.run)
    if args.as_json:
        say_json(_run_fields(files, run_status))
    else:
        _show(files, run_status)
    return _exit_code(run_status)


def _watched(args: RunStatusArgs) -> int:
    """Print the state of a run whenever it changes, until nothing of it waits or runs.

    With `--json`, each state is a document on one line.
    """
    states: list[JsonDict] = [{}]
    codes = [UNDERWAY]
    counter = ShardCounter()

    def print_if_changed() -> bool:
        files, run_status = _looked_at(args.run, counter)
        state = _run_fields(files, run_status)
        if state != states[-1]:
            states[-1] = state
            _print_change(files, run_status, as_json=args.as_json)
        codes[-1] = _exit_code(run_status)
        return not run_status.active

    until_true(print_if_changed, args.every)
    return codes[-1]


def _print_change(files: RunFiles, run_status: RunStatus, *, as_json: bool) -> None:
    run_status = with_gpu_hours(run_status, files, _executor(run_status.run))
    if as_json:
        say_json(_run_fields(files, run_status), on_one_line=True)
    else:
        say(time.strftime("%H:%M:%S"))
        _show(files, run_status)


def _json_flag(args: FollowArgs) -> list[str]:
    return ["--json"] if args.as_json else []


def _exit_code(run_status: RunStatus) -> int:
    if run_status.done:
        return 0
    ended_units = [unit for unit in run_status.units if not unit.standing.active]
    return UNDERWAY if all(unit.standing is Standing.DONE for unit in ended_units) else 1


def _looked_at(run_name: str, counter: ShardCounter | None = None) -> tuple[RunFiles, RunStatus]:
    files = folder_of(run_name)
    run = read_run(files)
    return files, status_of(files, run, _executor(run), counter=counter)


def _executor(run: Run) -> Executor:
    return executor_for(run.executor, timeout_s=run.command_timeout_s)


def _run_fields(files: RunFiles, run_status: RunStatus) -> JsonDict:
    return {
        "run": run_status.run.name,
        "output_dir": run_status.run.output_dir,
        "executor": run_status.run.executor,
        "done": run_status.done,
        "active": run_status.active,
        "counts": dict(run_status.counts()),
        "rollouts": dict(run_status.rollouts()),
        "gpu_hours": run_status.gpu_hours,
        "rewards": _rewards(files) if run_status.done else [],
        "units": [_unit(unit) for unit in run_status.units],
    }


def _unit(unit_status: UnitStatus) -> JsonDict:
    return {
        "name": unit_status.unit.name,
        "kind": "shard" if unit_status.unit.is_shard else "job",
        "job": unit_status.unit.job,
        "job_id": unit_status.unit.job_id,
        "submission": unit_status.unit.submission,
        "standing": unit_status.standing.value,
        "reason": unit_status.reason,
        "restarts": unit_status.restarts,
        "rollouts": dict(unit_status.rollouts),
        "mean_reward": unit_status.mean_reward,
        "servers": dict(unit_status.servers),
        "components": [dict(component) for component in unit_status.components],
    }


def _rewards(files: RunFiles) -> list[JsonDict]:
    """Return what the profile of the merged run says of each agent; empty without a profile."""
    try:
        agents = orjson.loads(RunPaths(files.merged.output).agent_metrics.read_bytes())
        return [{"agent": agent["agent_ref"]["name"], **agent["summary"]} for agent in agents]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def reward_line(rewards: JsonDict) -> str:
    """Return the mean reward of an agent with its interval, and pass@k of the largest k."""
    mean = rewards["mean_reward"]
    interval = mean["interval"]
    words = [f"{rewards['agent']}: mean reward {mean['scored']:.3f}"]
    if interval is not None:
        words.append(f"[{interval[0]:.3f}, {interval[1]:.3f}]")
    views = {view["k"]: view for view in rewards["pass@k"] if view["scored"] is not None}
    shown_ks = sorted({1, max(views)} & views.keys()) if views else []
    return " ".join([*words, *(_passed(views[k], views[min(views)]) for k in shown_ks)])


def _passed(view: JsonDict, single: JsonDict) -> str:
    """Return a pass@k, with its tasks where some have fewer than k scored rollouts.

    `single`: that of the smallest k, which every task with a score is in.
    """
    task_note = over_tasks(*(at.get("tasks_scored", 0) for at in (view, single)))
    return f"pass@{view['k']} {view['scored']:.3f}" + (f" ({task_note})" if task_note else "")


def _show(files: RunFiles, run_status: RunStatus) -> None:
    rows = [
        [
            unit.unit.name,
            unit.standing.value,
            _progress(unit),
            "-" if unit.mean_reward is None else f"{unit.mean_reward:.3f}",
            unit.unit.job_id.rpartition(":")[2],
            unit.reason,
        ]
        for unit in run_status.units
    ]
    columns = ("unit", "standing", "rollouts", "mean reward", "job", "reason")
    print_table(columns, rows, right="rollouts,mean reward")
    counts = ", ".join(f"{name} {number}" for name, number in sorted(run_status.counts().items()))
    total = run_status.rollouts()
    if not run_status.run.shards:
        say(f"{run_status.run.name}: {counts}")
        return
    say(
        f"{run_status.run.name}: {counts}; rollouts expected {total['expected']} = scored "
        f"{total['scored']} + failed {total['failed']}"
        + (f" + left {total['left']}" if total["left"] else "")
    )
    if run_status.gpu_hours is not None:
        say(f"GPU hours: {run_status.gpu_hours:.1f}")
    for rewards in _rewards(files) if run_status.done else ():
        if rewards["mean_reward"]["scored"] is not None:
            say(reward_line(rewards))


def _progress(unit_status: UnitStatus) -> str:
    if not unit_status.rollouts:
        return "-"
    return f"{unit_status.rollouts['expected'] - unit_status.rollouts['left']}/{unit_status.rollouts['expected']}"


def logs(args: LogsArgs) -> int:
    """Print the last lines of the logs of one shard or job, or by default of all that failed."""
    if args.follow and args.as_json:
        raise ConfigError(
            "--follow and --json: give one of them", hint="what --follow prints has no end"
        )
    words = ["logs", *_json_flag(args), *(["--follow"] if args.follow else [])]
    words += [f"--lines={args.lines}", *([f"--of={args.unit}"] if args.unit else [])]
    if (code := run_by_ssh(args.run, words)) is not None:
        return code
    files = folder_of(args.run)
    run = read_run(files)
    executor, unit, lines = _executor(run), args.unit, args.lines
    if args.follow:
        return _followed(files, run, unit)
    if unit is not None:
        names = [unit]
    else:
        run_status = status_of(files, run, executor)
        names = [unit.unit.name for unit in run_status.units if unit.standing is Standing.FAILED]
        if not names:
            notice("no job has failed; --of NAME shows the logs of one shard or job")
    paths = [path for name in names for path in executor.logs(run, name)]
    if unit is not None and not paths:
        _check_known(run, unit)
    if args.as_json:
        logs_read = [{"path": str(path), "end": _end(tail(path), lines)} for path in paths]
        say_json(logs_read)
        return 0
    for path in paths:
        say(f"==> {shown(path)}")
        say(_end(tail(path), lines))
    if names and not paths:
        notice(f"no logs of {', '.join(names)} in {run.log_dir}")
    return 0


def _followed(files: RunFiles, run: Run, unit: str | None) -> int:
    """Print what the logs get, until the unit, or the run, neither waits nor runs."""
    if unit is not None:
        _check_known(run, unit)
    executor = _executor(run)
    followed_logs = FollowedLogs(lambda: executor.logs(run, unit or ""))
    looks = itertools.count()

    def is_over() -> bool:
        active = active_units(files, run, executor)
        return unit not in active if unit is not None else not active

    def print_and_ask() -> bool:
        # Asked before the last lines are read.
        is_last = next(looks) % LOGS_PER_STATUS == 0 and is_over()
        followed_logs.print_new(to_end=is_last)
        return is_last

    until_true(print_and_ask, LOGS_EVERY_S)
    return 0


def _check_known(run: Run, name: str) -> None:
    """Raise ConfigError when `name` is neither a shard nor a job of the run."""
    known_names = [*(shard.name for shard in run.shards), *(job.name for job in run.jobs)]
    if name not in known_names:
        raise ConfigError(
            f"--of {name}: the run has no shard or job of that name{did_you_mean(name, known_names)}",
            hint=f"`palestra cluster status {run.output_dir}` lists them",
        )


def _end(text: str, lines: int) -> str:
    return "\n".join(text.splitlines()[-lines:])


def cancel(args: FollowArgs) -> int:
    """Cancel the jobs of a run that have not ended."""
    if (code := run_by_ssh(args.run, ["cancel", *_json_flag(args)])) is not None:
        return code
    files, run_status = _looked_at(args.run)
    ids = sorted({job_id for unit in run_status.units for job_id in unit.open_ids})
    _executor(run_status.run).cancel(ids)
    for unit in run_status.units:
        for job_id in unit.open_ids:
            _record_cancelled(files, unit, job_id)
    if args.as_json:
        say_json({"cancelled": ids})
    else:
        say(
            f"cancelled {len(ids)} jobs"
            if ids
            else "no job is waiting or running, so none was cancelled"
        )
    return 0


def _record_cancelled(files: RunFiles, unit_status: UnitStatus, job_id: str) -> None:
    event = {
        "event": "cancelled",
        "time": time.time(),
        "submission": unit_status.unit.submission,
        "job": unit_status.unit.job,
        "unit": unit_status.unit.name,
        "job_id": job_id,
    }
    ledger.append(files.ledger, event)


def _nothing_to_retry(underway: Mapping[str, int]) -> str:
    if not underway:
        return "nothing to submit again: all shards are done"
    numbers = ", ".join(f"{count} {standing}" for standing, count in underway.items())
    return f"nothing to submit again: {numbers}, and nothing has failed"


def retry_failed(args: RetryFailedArgs) -> int:
    """Submit again the shards and jobs that are neither done nor active, then the merge and the
    profile.
    """
    limit = ["--time", args.time] if args.time else []
    if (code := run_by_ssh(args.run, ["retry-failed", *_json_flag(args), *limit])) is not None:
        return code
    _, run_status = _looked_at(args.run)
    stuck = [unit for unit in run_status.units if unit.standing is Standing.NEVER_STARTS]
    ids = sorted({unit.unit.job_id for unit in stuck if unit.unit.job_id})
    shards = [
        unit.unit.name
        for unit in run_status.units
        if unit.unit.is_shard and unit.standing is not Standing.DONE and not unit.standing.active
    ]
    followers = [
        unit
        for unit in run_status.units
        if not unit.unit.is_shard
        and unit.standing is not Standing.DONE
        and not unit.standing.active
    ]
    if not shards and not followers:
        counts = run_status.counts()
        underway = {
            standing.value: counts[standing]
            for standing in (Standing.RUNNING, Standing.QUEUED)
            if standing in counts
        }
        if args.as_json:
            say_json({"submitted": [], "underway": underway})
        else:
            say(_nothing_to_retry(underway))
        return 0
    # The last of a shard's jobs: before it has ended, another may still finish the shard.
    active = [
        (unit.unit.name, unit.open_ids[-1])
        for unit in run_status.units
        if unit.unit.is_shard and unit.open_ids
    ]
    runs = resubmit(run_status.run, shards, active=active, stuck=ids, time_limit=args.time)
    if args.as_json:
        numbers = [run.submission for run in runs]
        say_json({"submission": numbers[-1], "submissions": numbers, "submitted": shards})
        return 0
    for run in runs:
        own_shards = dict.fromkeys(name for job in run.jobs for name in job.shards)
        say(f"submission {run.submission}: {', '.join(own_shards) or 'merge and profile'}")
    return 0
