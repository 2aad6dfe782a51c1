"""The units of a run: its shards and the jobs without shards, each from its last submission."""

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
    """One shard, or one job without shards, from its last submission."""

    name: str
    job: str
    submission: str
    job_id: str
    files: JobFiles
    is_shard: bool
    earlier: tuple["RunUnit", ...] = ()
    """The same unit in jobs of that submission that run before this one (`--dependent-jobs`)."""

    @property
    def attempts(self) -> tuple["RunUnit", ...]:
        """All jobs of this submission that run the unit, in order."""
        return (*self.earlier, replace(self, earlier=()))


def folder_of(run_name: str) -> RunFiles:
    """Return the files of a run, given its output folder or its name (the last run of that name).

    Raises InputDataError: there is no such run.
    """
    folder = Path(run_name).absolute()
    if not folder.is_dir():
        remembered_run = known_run(run_name)
        if remembered_run is None:
            raise InputDataError(
                f"there is no run {run_name!r}",
                hint="name the run by its --output-dir or --expname",
            )
        folder = Path(remembered_run.output_dir)
    return RunFiles(folder)


def read_run(files: RunFiles) -> Run:
    """Read the plan of the last submission that has jobs; without one, of the last dry run.

    Raises InputDataError: the folder contains no run.
    """
    numbers = by_weight(files)
    if not numbers:
        raise InputDataError(
            f"{files.output_dir} is not the output folder of a cluster run",
            hint="give the --output-dir of `palestra cluster rollouts`",
        )
    plan = files.submission(numbers[-1]).plan
    try:
        return read_plan(plan)
    except (OSError, ValueError) as error:
        raise InputDataError(f"{plan} cannot be read as a plan (plan.json): {error}") from error


def by_weight(files: RunFiles) -> tuple[str, ...]:
    """Return the numbers of all submissions: first those without jobs, such as dry runs, in order;
    then those with jobs, in order. The last one decides what the run is.
    """
    numbers = files.submissions()
    with_jobs = ledger.submissions(files.ledger) if numbers else frozenset()
    return tuple(sorted(numbers, key=lambda number: number in with_jobs))


def submitted_plan(files: RunFiles) -> Run | None:
    """Return the plan of the last submission that has jobs; None when there are only dry runs."""
    numbers = by_weight(files)
    if not numbers or numbers[-1] not in ledger.submissions(files.ledger):
        return None
    return read_plan(files.submission(numbers[-1]).plan)


def units_of(files: RunFiles, run: Run) -> list[RunUnit]:
    """Return every shard, then the jobs without shards, each from its last submission."""
    plans: dict[str, Run] = {run.submission: run}
    units: dict[str, RunUnit] = {}
    for submitted in ledger.submitted(files.ledger):
        if submitted.submission not in plans:
            plans[submitted.submission] = read_plan(files.submission(submitted.submission).plan)
        for unit in _units(files, plans[submitted.submission], submitted):
            _add(units, unit)
    for event in _started(files):
        # Submitted by hand, or by a command that was killed before it could say so.
        unit = _unit_that_started(files, event)
        current_unit = units.get(unit.name)
        if current_unit is None or current_unit.submission <= unit.submission:
            _add(units, unit)
    ordered = [shard.name for shard in run.shards]
    followers = [name for name in units if name not in ordered]
    return [units[name] for name in (*ordered, *followers) if name in units]


def _add(units: dict[str, RunUnit], unit: RunUnit) -> None:
    """Add a unit. It replaces one of an earlier submission; a further job of the same submission is
    added to the unit's attempts.
    """
    current_unit = units.get(unit.name)
    if current_unit is None or current_unit.submission != unit.submission:
        units[unit.name] = unit
    elif unit.job not in {attempt.job for attempt in current_unit.attempts}:
        units[unit.name] = replace(unit, earlier=current_unit.attempts)


def _units(files: RunFiles, run: Run, submitted: ledger.Submitted) -> list[RunUnit]:
    job = run.job(submitted.job)
    ids = unit_ids(job, submitted.job_id)
    names = job.shards or (job.name,)
    return [
        RunUnit(
            name,
            job.name,
            submitted.submission,
            ids[number if job.array else 0],
            files.submission(submitted.submission).job(job.name, number if job.array else None),
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
