"""The units of a run: its shards and the jobs that follow them, each as it was submitted last."""

from dataclasses import dataclass, replace
from pathlib import Path

from palestra.cluster import ledger
from palestra.cluster.executors import unit_ids
from palestra.cluster.layout import JobFiles, RunFiles
from palestra.cluster.ledger import known_run
from palestra.cluster.plan import Run, read_plan
from palestra.errors import InputDataError
from palestra.schema import JsonDict, JsonObject


@dataclass(frozen=True, slots=True)
class RunUnit:
    """One shard, or one job without shards, as it was submitted last."""

    name: str
    job: str
    submission: str
    job_id: str
    files: JobFiles
    is_shard: bool
    earlier: tuple["RunUnit", ...] = ()
    """The same of jobs of that submission that run it before this one does (`--dependent-jobs`)."""

    @property
    def attempts(self) -> tuple["RunUnit", ...]:
        """All that this submission has for it, in their order."""
        return (*self.earlier, replace(self, earlier=()))


def folder_of(given: str) -> RunFiles:
    """The run that a user names by its output folder, or by its name if it is the last of it.

    Raises InputDataError for none.
    """
    folder = Path(given).absolute()
    if not folder.is_dir():
        known = known_run(given)
        if known is None:
            raise InputDataError(
                f"there is no run {given!r}", hint="a run is named by its --output-dir or --expname"
            )
        folder = Path(known.output_dir)
    return RunFiles(folder)


def read_run(files: RunFiles) -> Run:
    """The plan of the last submission. Raises InputDataError when the folder is no run's."""
    numbers = files.submissions()
    if not numbers:
        raise InputDataError(
            f"{files.output_dir} is not the output folder of a cluster run",
            hint="give the --output-dir of `palestra cluster rollouts`",
        )
    plan = files.submission(numbers[-1]).plan
    try:
        return read_plan(plan)
    except (OSError, ValueError) as error:
        raise InputDataError(f"{plan} is no plan that can be read: {error}") from error


def units_of(files: RunFiles, run: Run) -> list[RunUnit]:
    """Every shard, and the jobs that follow them, each as it was submitted last."""
    plans: dict[str, Run] = {run.submission: run}
    found: dict[str, RunUnit] = {}
    for told in ledger.submitted(files.ledger):
        if told.submission not in plans:
            plans[told.submission] = read_plan(files.submission(told.submission).plan)
        for unit in _units(files, plans[told.submission], told):
            _add(found, unit)
    for event in _started(files):
        # Submitted by hand, or by a command that was killed before it could say so.
        unit = _unit_that_started(files, event)
        known = found.get(unit.name)
        if known is None or known.submission <= unit.submission:
            _add(found, unit)
    ordered = [shard.name for shard in run.shards]
    followers = [name for name in found if name not in ordered]
    return [found[name] for name in (*ordered, *followers) if name in found]


def _add(found: dict[str, RunUnit], unit: RunUnit) -> None:
    """A later submission takes the place of an earlier one; a later job of one is added to it."""
    known = found.get(unit.name)
    if known is None or known.submission != unit.submission:
        found[unit.name] = unit
    elif unit.job not in {one.job for one in known.attempts}:
        found[unit.name] = replace(unit, earlier=known.attempts)


def _units(files: RunFiles, run: Run, told: ledger.Submitted) -> list[RunUnit]:
    job = run.job(told.job)
    ids = unit_ids(job, told.job_id)
    names = job.shards or (job.name,)
    return [
        RunUnit(
            name,
            job.name,
            told.submission,
            ids[number if job.array else 0],
            files.submission(told.submission).job(job.name, number if job.array else None),
            bool(job.shards),
        )
        for number, name in enumerate(names)
    ]


def _unit_that_started(files: RunFiles, event: JsonObject) -> RunUnit:
    submission, job = str(event["submission"]), str(event["job"])
    shard: str | None = event.get("shard")
    return RunUnit(
        shard or job,
        job,
        submission,
        str(event["job_id"]),
        files.submission(submission).job(job, event.get("task")),
        shard is not None,
    )


def _started(files: RunFiles) -> list[JsonDict]:
    return [event for event in ledger.events(files.ledger) if event.get("event") == "started"]
