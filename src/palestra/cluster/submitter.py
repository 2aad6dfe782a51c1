"""The steps that all submissions share: find the output folder, write the files, submit the jobs."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from palestra.cluster.configs import find_cluster
from palestra.cluster.executors import Executor, JobState, Phase, executor_for
from palestra.cluster.layout import RunFiles, SubmissionFiles, logs
from palestra.cluster.ledger import KnownRun, append, known_run, remember, submitted
from palestra.cluster.options import raise_unset, unset_variables, unused_here, unused_options
from palestra.cluster.packaging import How, uncommitted
from palestra.cluster.places import PathReader, Placed, merged, parse_mounts
from palestra.cluster.plan import After, PlannedJob, Run, read_plan
from palestra.cluster.writing import Writer, submitting
from palestra.config import raise_problems
from palestra.errors import ConfigError, RunFailed
from palestra.settings import JobOptions


@dataclass(frozen=True, slots=True)
class Waits:
    """The result of `waits_for`. `after`: the dependencies. `notices`: messages on names without
    one.
    """

    after: tuple[After, ...] = ()
    notices: tuple[str, ...] = ()


def waits_for(
    names: Sequence[str], executor: Executor, kind: str, *, missing_fine: bool, offline: bool
) -> Waits:
    """Return the dependencies that `names` (of runs, or job ids) stand for.

    `kind`: the executor's name. `offline`: do not query the state of jobs; every known job becomes
    a dependency.
    """
    after: list[After] = []
    notices: list[str] = []
    for name in names:
        ids, known_run_of = _jobs_of(name)
        if not ids:
            if not missing_fine:
                raise ConfigError(
                    f"--run-after {name}: no such run",
                    hint="pass a run's --expname, its output folder or a job's id; "
                    "--allow-missing-dep starts the run anyway",
                )
            notices.append(f"--run-after {name}: no such run, so the new jobs do not wait for it")
            continue
        if offline:
            after += [After("afterok", job_id=job_id) for job_id in ids]
            continue
        run_executor = (
            executor_for(known_run_of.executor, timeout_s=known_run_of.timeout_s)
            if known_run_of
            else executor
        )
        open_ids = _open(name, ids, run_executor, missing_fine=missing_fine)
        if open_ids and known_run_of and known_run_of.executor != kind:
            raise ConfigError(
                f"--run-after {name}: it still runs, on executor {known_run_of.executor}, which "
                f"{kind} cannot wait for"
            )
        after += [After("afterok", job_id=job_id) for job_id in open_ids]
        if not open_ids:
            notices.append(f"--run-after {name}: ended well already")
    return Waits(tuple(after), tuple(notices))


def refuse_running(files: RunFiles, *, timeout_s: float) -> None:
    """Raise ConfigError when jobs of an earlier submission still run: both would write the same
    files.
    """
    events = submitted(files.ledger)
    going: list[str] = []
    for number in sorted({event.submission for event in events}):
        kind = read_plan(files.submission(number).plan).executor
        run_executor = executor_for(kind, timeout_s=timeout_s)
        ids = [event.job_id for event in events if event.submission == number]
        going += [
            unit for unit, job_state in run_executor.status(ids).items() if not job_state.state.over
        ]
    if going:
        raise ConfigError(
            f"{len(going)} jobs of an earlier submission into {files.output_dir} have not ended "
            f"({', '.join(going[:3])}{', …' if len(going) > 3 else ''})",
            hint="wait for them, or `palestra cluster cancel` them, or choose another --output-dir",
        )


def _jobs_of(name: str) -> tuple[tuple[str, ...], KnownRun | None]:
    """Return the ids of a run's last jobs, and the run. For a job id, return the id itself."""
    if name.isdecimal():
        return (name,), None
    folder = Path(name).absolute()
    remembered_run = known_run(name)
    if remembered_run is None and RunFiles(folder).submissions():
        run = read_plan(RunFiles(folder).submission(RunFiles(folder).submissions()[-1]).plan)
        remembered_run = KnownRun(run.name, run.output_dir, run.executor)
    return (
        (last_jobs(RunFiles(Path(remembered_run.output_dir))), remembered_run)
        if remembered_run
        else ((), None)
    )


def last_jobs(files: RunFiles) -> tuple[str, ...]:
    """Return the ids of the last submission's jobs that no other job depends on."""
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
    """Return the ids of jobs that have not ended. Raises ConfigError: a job failed or was
    cancelled.
    """
    states = executor.status(ids)
    open_ids = []
    for job_id in ids:
        own_states = [
            job_state
            for unit, job_state in states.items()
            if unit == job_id or unit.startswith(f"{job_id}_")
        ]
        bad = [
            job_state
            for job_state in own_states
            if job_state.state in {Phase.FAILED, Phase.CANCELLED}
        ]
        if bad:
            raise ConfigError(
                f"--run-after {name}: job {job_id} did not succeed ({_state_text(bad[0])})",
                hint="fix that run first; a job that waits for it would never start",
            )
        if all(job_state.state is Phase.UNKNOWN for job_state in own_states) and not missing_fine:
            raise ConfigError(
                f"--run-after {name}: the cluster does not know job {job_id} any more",
                hint="--allow-missing-dep starts the run anyway",
            )
        if any(not job_state.state.over for job_state in own_states):
            open_ids.append(job_id)
    return tuple(open_ids)


def _state_text(job_state: JobState) -> str:
    return job_state.reason or job_state.state.value


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of a submission. `job_ids`: job name in the plan -> job id; empty after a dry run."""

    run: Run
    folder: Path
    job_ids: Mapping[str, str]
    notices: tuple[str, ...] = ()


class Submitter:
    """The steps of a submission that are the same for rollouts and for commands.

    `report`: called with each notice. `notices`: earlier notices to report. Raises ConfigError: an
    option cannot be used on this cluster.
    """

    def __init__(
        self,
        options: JobOptions,
        output_dir: str,
        report: Callable[[str], None],
        notices: Sequence[str] = (),
    ) -> None:
        self._options = options
        self._tell = report
        self._notices: list[str] = []
        for notice in notices:
            self._log_line(notice)
        self._name, self._cluster = find_cluster(options.cluster, options.config_dir)
        if options.cluster is None:
            self._log_line(
                "no --cluster was given: everything runs on this machine (executor none)"
            )
        self._executor: Executor = executor_for(
            self._cluster.executor, timeout_s=self._cluster.command_timeout_s
        )
        self._cwd = Path.cwd()
        raise_problems(unused_options(options, self._cluster))
        for warning in unused_here(options, self._cluster):
            self._log_line(f"warning: {warning}")
        self._check_variables()
        self._how: How = options.package or (
            "installed" if self._cluster.runtime == "none" else "none"
        )
        self._places = PathReader(
            mounts=merged(parse_mounts(self._cluster.mounts), parse_mounts(options.mounts)),
            containers=self._cluster.runtime != "none",
            strict=options.check_mounted_paths,
            packaged=self._how in {"git", "dir"},
            cwd=self._cwd,
        )
        self._places.check_mounts()
        self._output = self._places.folder(output_dir, "--output-dir")
        self._files = RunFiles(self._output.outside)

    def _after(self) -> tuple[After, ...]:
        """Return the dependencies of the first job."""
        options = self._options
        waits = waits_for(
            options.run_after,
            self._executor,
            self._cluster.executor,
            missing_fine=options.allow_missing_dep,
            offline=options.dry_run,
        )
        for notice in waits.notices:
            self._log_line(notice)
        return waits.after

    @contextlib.contextmanager
    def _submission_lock(self, number: str) -> Iterator[None]:
        """Lock the folder against other submissions, and check that no earlier job runs.

        `number`: the submission's planned number. Raises ConfigError: another command took it
        meanwhile.
        """
        with submitting(self._files):
            if number != self._next_submission():
                raise ConfigError(
                    f"another command has just submitted into {self._files.output_dir}",
                    hint="see what it submitted with `palestra cluster status`",
                )
            if not self._options.dry_run:
                refuse_running(self._files, timeout_s=self._cluster.command_timeout_s)
            yield

    def _say_what_waits(self, run: Run) -> None:
        """Report which parts of the run this submission does not contain. Default: nothing."""

    def _submitted(self, run: Run, writer: Writer) -> Submission:
        """Write the folder of a plan, and submit its jobs unless this is a dry run."""
        options = self._options
        if self._how == "git" and (changed := uncommitted(self._cwd)):
            self._log_line(
                f"--package git leaves out what is not committed: {', '.join(changed[:5])}"
            )
        try:
            folder = writer.write(run)
        except OSError as error:
            raise self._not_written(error) from error
        self._say_what_waits(run)
        if options.dry_run:
            self._log_line(f"dry run: nothing was submitted; {folder.submit_script} submits it")
            return Submission(run, folder.folder, {}, tuple(self._notices))
        ids = hand_over(run, self._executor, timeout_s=self._cluster.command_timeout_s)
        return Submission(run, folder.folder, ids, tuple(self._notices))

    def _not_written(self, error: OSError) -> RunFailed:
        return RunFailed(f"the submission cannot be written into {self._files.output_dir}: {error}")

    def _log_line(self, text: str) -> None:
        self._notices.append(text)
        self._tell(text)

    def _check_variables(self) -> None:
        """Raise ConfigError when a variable that the jobs need has no value.

        In a dry run only warn, because the user submits later, perhaps with other variables.
        """
        problems = unset_variables(self._options, self._cluster, os.environ)
        if not self._options.dry_run:
            raise_unset(problems)
        for problem in problems:
            self._log_line(f"warning: {problem}: export it before you submit")

    def _log_dir(self) -> Placed:
        log_dir = self._options.log_dir or str(logs(self._output.outside))
        return self._places.folder(log_dir, "--log-dir")

    def _workdir(self, folder: SubmissionFiles) -> str | None:
        if self._places.packaged:
            return str(folder.code)
        return None if self._places.containers else str(self._cwd)

    def _next_submission(self) -> str:
        numbers = [int(p.name) for p in self._files.cluster.glob("[0-9]*") if p.name.isdecimal()]
        return f"{max(numbers, default=0) + 1:04d}"


def hand_over(run: Run, executor: Executor, *, timeout_s: float = 60.0) -> dict[str, str]:
    """Submit a run whose folder is written. Return job name -> job id. Each id is in the ledger by
    then.
    """
    files = RunFiles(Path(run.output_dir))
    ids: dict[str, str] = {}

    def on_submitted(job: PlannedJob, job_id: str) -> None:
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
        remember(KnownRun(run.name, run.output_dir, run.executor, timeout_s))
    except OSError as error:
        raise RunFailed(
            f"the name of the run cannot be saved: {error}",
            hint="set PALESTRA_STATE_DIR to a folder that can be written",
        ) from error
    try:
        executor.submit(run, on_submitted)
    except RunFailed as error:
        if run.executor != "slurm" or not ids:
            raise
        submitted = ", ".join(f"{name} {job_id}" for name, job_id in ids.items())
        raise type(error)(
            f"{error.message}; submitted before that: {submitted}",
            hint=f"`palestra cluster retry-failed {run.output_dir}` submits the missing jobs, "
            "`palestra cluster cancel` ends the submitted ones",
        ) from error
    return ids
