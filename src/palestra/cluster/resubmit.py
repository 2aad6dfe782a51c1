"""Submit a part of a run again: the same plan and scripts, for the shards that are not done.

Shards keep their names, rows and files, so each continues where it stopped. Merge and profile
follow once no shard is missing.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from palestra.cluster.executors import Executor, executor_for
from palestra.cluster.layout import RunFiles
from palestra.cluster.options import INHERITED, KEY_OPTION, raise_unset, unset
from palestra.cluster.plan import After, PlannedJob, Role, Run, read_plan
from palestra.cluster.planner import replan
from palestra.cluster.render import submit_script
from palestra.cluster.shard import is_done
from palestra.cluster.submitter import hand_over
from palestra.cluster.units import by_weight
from palestra.cluster.writing import submitting, supervisor_zip, write_plan
from palestra.errors import RunFailed

CLOSING: Final = frozenset({Role.MERGE, Role.PROFILE, Role.COMMAND})
_EXPORT = re.compile(r"^#SBATCH --export", re.MULTILINE)
_TIME = re.compile(r"^#SBATCH --time=.*$\n?", re.MULTILINE)
_SIGNAL = re.compile(r"^#SBATCH --signal=.*$", re.MULTILINE)
_ARRAY = re.compile(r"^#SBATCH --array=.*$\n?", re.MULTILINE)


def resubmit(
    run: Run,
    shards: Sequence[str],
    *,
    active: Collection[tuple[str, str]] = (),
    stuck: Sequence[str] = (),
    time_limit: str | None = None,
    executor: Executor | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Run, ...]:
    """Submit `shards` again, with merge and profile if no other shard is missing. Return the new
    plans: one, or several when no earlier submission has all of the shards.

    `active`: name and job id of shards that wait or run; merge and profile wait for them too.
    `stuck`: ids of jobs that never start; they are cancelled first. `time_limit`: of the jobs of the
    shards, in Slurm's format; default is the one that they had. `executor`: default is the
    run's own. `environ`: default is this process's. Raises ConfigError, before anything is written
    or cancelled: a variable that the jobs need is not set. Raises RunFailed: the folder that the
    plan names has no submissions, as after a move.
    """
    files = RunFiles(Path(run.output_dir))
    if not files.submissions():
        raise RunFailed(
            f"the jobs of this run work in {run.output_dir}, which holds no submission",
            hint="move the run's folder back there: its scripts and its plan name that place",
        )
    run_executor = executor or executor_for(run.executor, timeout_s=run.command_timeout_s)
    for part in _parts(_submissions(files), shards):
        _check_variables(files, part.plan, part.shards, os.environ if environ is None else environ)
    run_executor.cancel(stuck)
    with submitting(files):
        return _resubmitted(run, files, shards, active, run_executor, time_limit)


@dataclass(frozen=True, slots=True)
class _Part:
    """Shards to submit again with the jobs of one earlier submission, `plan`."""

    plan: Run
    shards: tuple[str, ...]


def _submissions(files: RunFiles) -> list[Run]:
    return [read_plan(files.submission(number).plan) for number in by_weight(files)]


def _parts(plans: Sequence[Run], shards: Sequence[str]) -> list[_Part]:
    """Return `shards` with the last submission that has all of them, or else each with the last one
    that has it.

    Raises RunFailed: a shard is in no submission.
    """
    names_of = [{name for job in plan.jobs for name in job.shards} for plan in plans]
    for plan, names in zip(reversed(plans), reversed(names_of), strict=True):
        if names >= set(shards):
            return [_Part(plan, tuple(shards))]
    last = {name: at for at, names in enumerate(names_of) for name in names}
    if missing := [name for name in shards if name not in last]:
        raise RunFailed(
            f"no earlier submission has the shards {', '.join(missing)}",
            hint="run the command that submitted the run again: it submits what is missing",
        )
    return [
        _Part(plans[at], tuple(name for name in shards if last[name] == at))
        for at in sorted({last[name] for name in shards})
    ]


def _check_variables(
    files: RunFiles, run: Run, shards: Sequence[str], environ: Mapping[str, str]
) -> None:
    key = run.policy.api_key_env
    setting_of = {name: INHERITED for name in run.secrets if name != key}
    if key and shards:  # whoever merges asks no model
        setting_of[key] = KEY_OPTION
    folder = files.submission(run.submission).folder
    if not any(_EXPORT.search(script.read_text()) for script in folder.glob("*.sh")):
        raise_unset(unset(setting_of, environ))


def _resubmitted(
    run: Run,
    files: RunFiles,
    shards: Sequence[str],
    active: Collection[tuple[str, str]],
    executor: Executor,
    time_limit: str | None,
) -> tuple[Run, ...]:
    """Submit each part in turn. Merge and profile are in the last one, and wait for all.

    Raises RunFailed: a job was refused or, on executors without a queue, failed. The latter do not
    keep further parts from running.
    """
    done_shards = {shard.name for shard in run.shards if is_done(files.shard(shard.name))}
    coming = done_shards | set(shards) | {name for name, _ in active}
    complete = {shard.name for shard in run.shards} <= coming
    waits = [job_id for _, job_id in active]
    parts = _parts(_submissions(files), shards)
    replanned: list[Run] = []
    failures: list[RunFailed] = []
    for number, part in enumerate(parts, start=1):
        is_last = number == len(parts)
        closing = complete and is_last and not failures
        replanned.append(_replanned(run, files, part, waits, time_limit, closing=closing))
        try:
            ids = hand_over(replanned[-1], executor, timeout_s=run.command_timeout_s)
            waits += [ids[name] for name in _last_jobs(replanned[-1])]
        except RunFailed as error:
            if run.executor == "slurm":
                raise
            failures.append(error)
    if failures:
        raise failures[0]
    return tuple(replanned)


def _replanned(
    run: Run,
    files: RunFiles,
    part: _Part,
    waits: Sequence[str],
    time_limit: str | None,
    *,
    closing: bool,
) -> Run:
    """Write the folder of one new submission, and return its plan.

    Its jobs are those of `part`. The rest is that of `run`, which may have more seeds by now.
    `closing`: add merge and profile, which wait for the jobs with the ids `waits`, too.
    """
    earlier = _submissions(files)
    number = f"{max(map(int, files.submissions())) + 1:04d}"
    new = replace(
        replan(part.plan, part.shards, submission=number, complete=False),
        collect=replace(part.plan.collect, materialized=run.collect.materialized),
        shards=run.shards,
        identity=run.identity,
        input_digest=run.input_digest,
        tasks=run.tasks,
        rollouts=run.rollouts,
        rerun_done=False,
    )
    if time_limit is not None:
        jobs = tuple(replace(job, time_limit=time_limit) if job.shards else job for job in new.jobs)
        new = replace(new, jobs=jobs)
    if part.shards and not new.collect.materialized and not files.stamped.exists():
        new = _after_preparing(new, earlier)
    new = _with_closing(new, earlier if closing else [], waits)
    # Of a shard's job, the plan and the script must be of one submission.
    scripts = {
        job.name: next(
            plan.submission
            for plan in ([part.plan] if job.shards else reversed(earlier))
            if job.name in {planned_job.name for planned_job in plan.jobs}
        )
        for job in new.jobs
    }
    _write(files, new, scripts)
    return new


def _last_jobs(run: Run) -> list[str]:
    """Return the names of the jobs that decide about shards.

    Of several jobs that run the same shards the last one decides: see `--dependent-jobs`.
    """
    return list({job.shards: job.name for job in run.jobs if job.shards}.values())


def _after_preparing(run: Run, plans: Sequence[Run]) -> Run:
    """Return `run` with the failed `prepare` job of an earlier submission before all other jobs."""
    job = next(
        job for plan in reversed(plans) for job in plan.jobs if job.main.role is Role.PREPARE
    )
    waits = After(job=job.name)
    collecting = (
        planned_job
        if any(a.job for a in planned_job.after)
        else replace(planned_job, after=(*planned_job.after, waits))
        for planned_job in run.jobs
    )
    return replace(run, jobs=(replace(job, after=()), *collecting))


def _with_closing(run: Run, plans: Sequence[Run], job_ids: Sequence[str]) -> Run:
    """Return `run` with the merge and profile of an earlier submission added after its jobs.

    For a run of a user's command, add the command's job.
    """
    closing: tuple[PlannedJob, ...] = ()
    for plan in reversed(plans):
        closing = closing or tuple(job for job in plan.jobs if job.main.role in CLOSING)
    names = {job.name for job in closing}
    waits = tuple(After(job=name) for name in _last_jobs(run))
    waits += tuple(After(job_id=job_id) for job_id in job_ids)
    kept_jobs = [
        replace(job, after=kept_waits)
        if (kept_waits := tuple(a for a in job.after if a.job in names))
        else replace(job, after=waits)
        for job in closing
    ]
    return replace(run, jobs=(*run.jobs, *kept_jobs))


def _write(files: RunFiles, run: Run, scripts: Mapping[str, str]) -> None:
    """Write the folder of the new submission. Its scripts are copies of earlier ones with new
    paths.

    `scripts`: the name of each job, and the submission whose script is copied.
    """
    folder = files.submission(run.submission)
    folder.folder.mkdir(parents=True)  # of two that come at once, one fails here
    folder.supervisor.write_bytes(supervisor_zip())
    for job in run.jobs:
        old = scripts[job.name]
        text = files.submission(old).script(job.name).read_text()
        script = folder.script(job.name)
        script.write_text(_renumbered(text, files, old, run.submission, job))
        script.chmod(0o755)
    folder.submit_script.write_text(submit_script(run))
    folder.submit_script.chmod(0o755)
    write_plan(folder, run)


def _renumbered(text: str, files: RunFiles, old: str, new: str, job: PlannedJob) -> str:
    before, after = files.submission(old), files.submission(new)
    for name in ("supervisor", "plan"):
        text = text.replace(str(getattr(before, name)), str(getattr(after, name)))
    if not job.array:
        text = text.replace("_%A_%a.log", "_%j.log")
    cap = f"%{job.array_cap}" if job.array_cap else ""
    if job.shards and job.time_limit:
        text = _limited(text, job, job.time_limit)
    array = f"#SBATCH --array=0-{len(job.shards) - 1}{cap}\n" if job.array else ""
    return _ARRAY.sub(array, text)


def _limited(text: str, job: PlannedJob, time_limit: str) -> str:
    """Return a script with another time limit, and the warning before it."""
    signal, *_ = _SIGNAL.findall(text) or [""]
    shebang, body = _TIME.sub("", text).split("\n", 1)
    text = "\n".join([shebang, f"#SBATCH --time={time_limit}", body])
    return text.replace(signal, f"#SBATCH --signal=B:USR1@{job.warning_s}") if signal else text
