"""`--run-after`: the jobs of an earlier run that a new one has to wait for.

An earlier run that ended well is no dependency any more, one that ended badly an error; one that
nobody knows is an error unless it may be missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palestra.cluster.executors import Executor, JobState, Phase, executor_for
from palestra.cluster.layout import RunFiles
from palestra.cluster.ledger import KnownRun, known_run, submitted
from palestra.cluster.plan import After, read_plan
from palestra.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Waits:
    """`after`: what is still to be waited for. `notices`: what need not be."""

    after: tuple[After, ...] = ()
    notices: tuple[str, ...] = ()


def waits_for(
    names: Sequence[str], executor: Executor, kind: str, *, missing_fine: bool, offline: bool
) -> Waits:
    """What `names` (of runs, or ids of jobs) come to. `kind`: the executor's name.

    `offline` asks nobody how jobs are: each that is known is a dependency.
    """
    after: list[After] = []
    notices: list[str] = []
    for name in names:
        ids, known = _jobs_of(name)
        if not ids:
            if not missing_fine:
                raise ConfigError(
                    f"--run-after {name}: no such run",
                    hint="a run's --expname, its output folder or a job's id; "
                    "--allow-missing-dep starts all the same",
                )
            notices.append(f"--run-after {name}: no such run, so nothing is waited for")
            continue
        if offline:
            after += [After("afterok", job_id=job_id) for job_id in ids]
            continue
        asked = executor_for(known.executor, timeout_s=known.timeout_s) if known else executor
        open_ids = _open(name, ids, asked, missing_fine=missing_fine)
        if open_ids and known and known.executor != kind:
            raise ConfigError(
                f"--run-after {name}: it still runs, on executor {known.executor}, which "
                f"{kind} cannot wait for"
            )
        after += [After("afterok", job_id=job_id) for job_id in open_ids]
        if not open_ids:
            notices.append(f"--run-after {name}: ended well already")
    return Waits(tuple(after), tuple(notices))


def refuse_running(files: RunFiles, *, timeout_s: float) -> None:
    """Two submissions never write the same files at once. Raises ConfigError."""
    events = submitted(files.ledger)
    going: list[str] = []
    for number in sorted({event.submission for event in events}):
        kind = read_plan(files.submission(number).plan).executor
        asked = executor_for(kind, timeout_s=timeout_s)
        ids = [event.job_id for event in events if event.submission == number]
        going += [unit for unit, told in asked.status(ids).items() if not told.state.over]
    if going:
        raise ConfigError(
            f"{len(going)} jobs of an earlier submission into {files.output_dir} have not ended "
            f"({', '.join(going[:3])}{', …' if len(going) > 3 else ''})",
            hint="wait for them, or `palestra cluster cancel` them, or choose another --output-dir",
        )


def _jobs_of(name: str) -> tuple[tuple[str, ...], KnownRun | None]:
    """The ids of the jobs that end a run; a job's id is itself one."""
    if name.isdecimal():
        return (name,), None
    folder = Path(name).absolute()
    known = known_run(name)
    if known is None and RunFiles(folder).submissions():
        run = read_plan(RunFiles(folder).submission(RunFiles(folder).submissions()[-1]).plan)
        known = KnownRun(run.name, run.output_dir, run.executor)
    return (last_jobs(RunFiles(Path(known.output_dir))), known) if known else ((), None)


def last_jobs(files: RunFiles) -> tuple[str, ...]:
    """The ids of the last submission's jobs that no other job of it comes after."""
    events = submitted(files.ledger)
    if not events:
        return ()
    number = events[-1].submission
    run = read_plan(files.submission(number).plan)
    followed = {after.job for job in run.jobs for after in job.after}
    return tuple(e.job_id for e in events if e.submission == number and e.job not in followed)


def _open(
    name: str, ids: Sequence[str], executor: Executor, *, missing_fine: bool
) -> tuple[str, ...]:
    """Those that have not ended. Raises ConfigError for one that ended badly."""
    states = executor.status(ids)
    found = []
    for job_id in ids:
        own = [
            told for unit, told in states.items() if unit == job_id or unit.startswith(f"{job_id}_")
        ]
        bad = [told for told in own if told.state in {Phase.FAILED, Phase.CANCELLED}]
        if bad:
            raise ConfigError(
                f"--run-after {name}: job {job_id} ended badly ({_said(bad[0])})",
                hint="mend that run first; what depends on it would never start",
            )
        if all(told.state is Phase.UNKNOWN for told in own) and not missing_fine:
            raise ConfigError(
                f"--run-after {name}: the cluster knows no job {job_id} any more",
                hint="--allow-missing-dep starts all the same",
            )
        if any(not told.state.over for told in own):
            found.append(job_id)
    return tuple(found)


def _said(told: JobState) -> str:
    return told.reason or told.state.value
