"""`cluster rollouts`, and the field's `nemo_gym_rollouts`: from flags to a submission."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palestra.cli.console import notice, say, shown
from palestra.cluster import Submission, rollouts, run_cmd
from palestra.cluster.layout import RunFiles
from palestra.cluster.options import RolloutOptions


def submit(given: Mapping[str, Any]) -> int:
    """Submit what the flags ask for, and say what became of it."""
    flags = {name: value for name, value in given.items() if name in RolloutOptions.model_fields}
    options = {name: value for name, value in flags.items() if value is not None}
    options["config_paths"] = [
        part.strip()
        for text in options["config_paths"]
        for part in text.strip("[]").split(",")
        if part.strip()
    ]
    report(rollouts(extra=given.get("overrides") or (), tell=notice, **options))
    return 0


def submit_command(given: Mapping[str, Any]) -> int:
    """Submit the command that the flags ask for, and say what became of it."""
    options = {name: value for name, value in given.items() if name != "words"}
    submission = run_cmd(extra=given.get("words") or (), tell=notice, **options)
    run = submission.run
    (job,) = run.jobs
    say(f"{run.name}: {submission.job_ids.get(job.name, 'not submitted')}")
    say(f"plan, script and logs: {shown(run_folder(submission))}")
    if submission.job_ids and run.executor != "none":
        say(f"follow it with: palestra cluster status {run.output_dir}")
    return 0


def run_folder(submission: Submission) -> Path:
    """The output folder of a run, outside containers."""
    return submission.folder.parent.parent


def report(submission: Submission) -> None:
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
    merged = RunFiles(run_folder(submission))
    for path in (merged.merged.output, merged.reward_profiling, merged.aggregate_metrics):
        if run.executor == "none" and submission.job_ids and path.exists():
            say(f"  {shown(path)}")
