"""A run over many jobs: what `palestra cluster status` says, with the ends of the logs."""

import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from palestra.analysis import completion_for
from palestra.causes import FailureMeanings, Signature
from palestra.cluster import (
    Executor,
    Run,
    RunFiles,
    RunStatus,
    Shard,
    Standing,
    UnitStatus,
    executor_for,
    read_run,
    seconds_of,
    status_of,
    tail,
)
from palestra.errors import PalestraError
from palestra.schema import RunPaths
from palestra.viewer.discovery import digest_of
from palestra.viewer.replies.base import Count
from palestra.viewer.replies.clusters import ClusterPage, Tone, UnitLine
from palestra.viewer.requests import PageRequest

LOG_LINES: Final = 10
MOST_LOGS: Final = 64
"""The ends of so many logs are read: those of units that failed come first."""
TIME_LIMIT: Final = "infra.slurm-time-limit"
SAME_OPTIONS: Final = (
    "Submits what is missing again, with the options that it had. To change one, type the run's "
    "`palestra cluster rollouts` command again with the other value (memory: `mem_mib` in the cluster's "
    "file) and the same --output-dir: what is done stays."
)
LONGER: Final = "Submits what is missing again, with twice the time. What is recorded stays."


def cluster(request: PageRequest) -> ClusterPage:
    """Answer the shards and jobs of a run, as its ledger, its files and the executor say."""
    run_place = request.viewer.catalog.cluster(request.parts["cluster"])
    files = RunFiles(run_place.folder)
    problem = ""
    plan = read_run(files)
    run = _with_current_folders(plan, run_place.folder)
    executor = executor_for(run.executor, timeout_s=run.command_timeout_s)
    try:
        status = status_of(files, run, executor, record=False)
    except PalestraError as error:
        problem = error.message
        status = RunStatus(run, ())
    seeds = {shard.name: shard for shard in run.shards}
    ordered = sorted(status.units, key=lambda unit: unit.standing is not Standing.FAILED)
    logged = {unit.unit.name for unit in ordered[:MOST_LOGS]}
    known_runs = {run_place.id for run_place in request.viewer.catalog.places}
    units, meanings = [], FailureMeanings()
    causes: dict[str, Signature] = {}
    for unit in status.units:
        request.stop.check()
        shard = seeds.get(unit.unit.name)
        lines = _log(executor, status, unit) if unit.unit.name in logged else []
        if (cause := _cause(unit, lines, meanings)) is not None:
            causes[unit.unit.name] = cause
        run_id = digest_of(files.shard(unit.unit.name).output) if unit.unit.is_shard else ""
        units.append(
            _unit(
                unit,
                label="" if shard is None else _label(run, shard),
                seed="" if shard is None else str(shard.seed),
                chunk="" if shard is None else str(shard.chunk),
                log=lines,
                run_id=run_id if run_id in known_runs else "",
                next_action=_next_action(cause, files.shard(unit.unit.name).output),
            )
        )
    command, note = _next_command(run_place.folder, plan, status, causes)
    return ClusterPage(
        id=run_place.id,
        name=run.name,
        folder_name=run_place.name,
        output_dir=run.output_dir,
        counts=[Count(name=n, count=c) for n, c in sorted(status.counts().items())],
        rollouts=[Count(name=n, count=c) for n, c in status.rollouts().items()],
        units=units,
        problem=problem,
        command=command,
        command_note=note,
        asked_at=time.time(),
    )


def _next_action(cause: Signature | None, output: Path) -> str:
    """Return what to do about a unit that failed; empty when it has no known cause. `output`: that of
    a shard; a unit of another kind has no run there.
    """
    if cause is None:
        return ""
    is_run = RunPaths(output).manifest.is_file()
    advice = completion_for([output]) if is_run else str
    return advice(cause.action())


def _with_current_folders(plan: Run, folder: Path) -> Run:
    """Return the run with its folders as they are now, also where they were moved."""
    log_dir = Path(plan.log_dir)
    if log_dir.is_relative_to(plan.output_dir):
        log_dir = folder / log_dir.relative_to(plan.output_dir)
    return replace(plan, output_dir=str(folder), log_dir=str(log_dir))


def _next_command(
    folder: Path, plan: Run, status: RunStatus, causes: Mapping[str, Signature]
) -> tuple[str, str]:
    """Return the command that goes on after jobs that failed, and what it does.

    `causes`: of the failed units that the doctor's table knows, by name.
    """
    failed = [unit for unit in status.units if unit.standing is Standing.FAILED]
    if not failed:
        return "", ""
    if folder.resolve() != Path(plan.output_dir).resolve():
        return "", (
            f"The jobs of this run work in {plan.output_dir}, and its folder was moved or copied "
            "from there: move it back to submit them again."
        )
    words = ["palestra", "cluster", "retry-failed", str(folder)]
    names = [causes[unit.unit.name].cause if unit.unit.name in causes else "" for unit in failed]
    limits = _time_limits(plan, failed)
    # `--time` is of the jobs of shards alone
    is_of_shards = all(unit.unit.is_shard for unit in failed)
    if set(names) != {TIME_LIMIT} or not limits or not is_of_shards:
        return shlex.join(words), SAME_OPTIONS
    minutes = -(-2 * max(limits) // 60)
    limit = f"{int(minutes // 60)}:{int(minutes % 60):02}:00"
    return shlex.join([*words, "--time", limit]), LONGER


def _time_limits(plan: Run, units: Sequence[UnitStatus]) -> list[float]:
    """Return the time limits of the jobs of some units, in seconds."""
    names = {unit.unit.job for unit in units}
    return [seconds_of(job.time_limit) for job in plan.jobs if job.name in names and job.time_limit]


def _log(executor: Executor, status: RunStatus, unit: UnitStatus) -> list[str]:
    paths: tuple[Path, ...] = ()
    with suppress(PalestraError, OSError):
        paths = executor.logs(status.run, unit.unit.name)
    return tail(paths[-1]).splitlines()[-LOG_LINES:] if paths else []


def tone_of(standing: Standing) -> Tone:
    """Return whether a unit is done, needs somebody, or goes on by itself."""
    if standing is Standing.DONE:
        return "good"
    return "open" if standing.active or standing is Standing.NOT_SUBMITTED else "bad"


def _cause(unit: UnitStatus, log: Sequence[str], meanings: FailureMeanings) -> Signature | None:
    """Return what the doctor's table knows about a unit that failed: first of its reason."""
    if unit.standing is not Standing.FAILED:
        return None
    texts = (unit.reason, *reversed(log))
    return next(filter(None, (meanings.of("", None, text) for text in texts)), None)


def _label(run: Run, shard: Shard) -> str:
    """Return a shard's seed and chunk, as the table of seeds by chunks numbers them."""
    has_seeds = run.collect.seeded or len({shard.seed for shard in run.shards}) > 1
    parts = [f"seed {shard.seed}"] if has_seeds else []
    if shard.chunks > 1:
        parts.append(f"chunk {shard.chunk}")
    return ", ".join(parts)


def _unit(
    unit: UnitStatus,
    *,
    label: str,
    seed: str,
    chunk: str,
    log: list[str],
    run_id: str,
    next_action: str,
) -> UnitLine:
    return UnitLine(
        name=unit.unit.name,
        label=label or unit.unit.name,
        seed=seed,
        chunk=chunk,
        standing=unit.standing.value,
        tone=tone_of(unit.standing),
        reason=unit.reason,
        next=next_action,
        job=unit.unit.job,
        job_id=unit.unit.job_id,
        restarts=unit.restarts,
        expected=unit.rollouts.get("expected"),
        scored=unit.rollouts.get("scored"),
        failed=unit.rollouts.get("failed"),
        left=unit.rollouts.get("left"),
        log=log,
        run=run_id,
    )
