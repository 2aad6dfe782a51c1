"""A run over many jobs: what `palestra cluster status` says, with the ends of the logs."""

import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from palestra.cluster import (
    Executor,
    RunFiles,
    RunStatus,
    Standing,
    UnitStatus,
    executor_for,
    read_run,
    status_of,
    tail,
)
from palestra.errors import PalestraError
from palestra.viewer.discovery import digest_of
from palestra.viewer.replies.base import Count
from palestra.viewer.replies.clusters import ClusterPage, Tone, UnitLine
from palestra.viewer.requests import PageRequest

LOG_LINES: Final = 10
MOST_LOGS: Final = 64
"""The ends of so many logs are read: those of units that failed come first."""


def cluster(request: PageRequest) -> ClusterPage:
    """Answer the shards and jobs of a run, as its ledger, its files and the executor say."""
    run_place = request.viewer.catalog.cluster(request.parts["cluster"])
    files = RunFiles(run_place.folder)
    problem = ""
    run = read_run(files)
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
    units = []
    for unit in status.units:
        request.stop.check()
        shard = seeds.get(unit.unit.name)
        lines = _log(executor, status, unit) if unit.unit.name in logged else []
        run_id = digest_of(files.shard(unit.unit.name).output) if unit.unit.is_shard else ""
        units.append(
            _unit(
                unit,
                seed="" if shard is None else str(shard.seed),
                chunk="" if shard is None else str(shard.chunk),
                log=lines,
                run_id=run_id if run_id in known_runs else "",
            )
        )
    return ClusterPage(
        id=run_place.id,
        name=run.name,
        output_dir=run.output_dir,
        counts=[Count(name=n, count=c) for n, c in sorted(status.counts().items())],
        rollouts=[Count(name=n, count=c) for n, c in status.rollouts().items()],
        units=units,
        problem=problem,
        command=_next_command(run_place.folder, status),
        asked_at=time.time(),
    )


def _next_command(folder: Path, status: RunStatus) -> str:
    """Return the command that goes on after jobs that failed; empty when none did."""
    has_failed = any(unit.standing is Standing.FAILED for unit in status.units)
    return shlex.join(["palestra", "cluster", "retry-failed", str(folder)]) if has_failed else ""


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


def _unit(unit: UnitStatus, *, seed: str, chunk: str, log: list[str], run_id: str) -> UnitLine:
    return UnitLine(
        name=unit.unit.name,
        seed=seed,
        chunk=chunk,
        standing=unit.standing.value,
        tone=tone_of(unit.standing),
        reason=unit.reason,
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
