"""Lists the runs in a folder: what each ran, how far it came, and its mean reward. `palestra runs`
prints it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.analysis import (
    Estimate,
    GroupSummary,
    RunHead,
    RunSummary,
    load_run,
    run_head,
    summarize,
)
from palestra.errors import ConfigError, PalestraError
from palestra.rollouts import (
    Manifest,
    RunManifests,
    announcements,
    ask_collection,
    is_being_written,
    is_reverified,
    lost_rows,
    output_beside,
    outputs_of,
    read_if_valid,
    runs_in,
    scored_keys,
)
from palestra.schema import (
    FAILURE_CLASS,
    FailedAttempts,
    JsonDict,
    Remedy,
    RunPaths,
    read_jsonl,
    with_compressed,
)
from palestra.system import shown

RUNS_FOLDER: Final = Path("runs")
"""Where `palestra eval` writes its runs."""


LoadSummary = Callable[[Sequence[Path]], RunSummary]
"""Returns the summary of the run that has these outputs, as far as it got."""


class RunState(StrEnum):
    """How far a run is."""

    RUNNING = "running"
    """A command works on it now."""
    DONE = "done"
    """Every requested rollout has ended."""
    STOPPED = "stopped"
    """No command works on it, and rollouts are left. `--resume` runs them."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One line of `palestra runs`."""

    path: Path
    """The file with the scored rows; for a run in shards, their folder."""
    environment: str
    """The environments, separated by commas."""
    model: str
    """The name of the policy."""
    state: RunState
    requested: int
    scored: int
    failed: int
    """The rollouts that ended without a reward."""
    mean_reward: float | None
    """The mean over the scored rollouts; None without one."""
    interval: tuple[float, float] | None
    """The 95 % interval of the mean; None when there are too few tasks for one."""
    started_at: datetime
    problem: str = ""
    """Why the run's files cannot be read; empty when they can."""
    selected_from: str = ""
    """The runs by whose rewards the tasks were chosen; empty without one."""

    @property
    def ended(self) -> float:
        """The part of the requested rollouts that has ended, from 0 to 1."""
        return (self.scored + self.failed) / self.requested if self.requested else 1.0

    def to_dict(self) -> JsonDict:
        """Return the fields as JSON values."""
        fields: dict[str, Any] = asdict(self)
        return {
            **fields,
            "path": str(self.path),
            "interval": None if self.interval is None else list(self.interval),
            "started_at": self.started_at.isoformat(),
        }


def list_runs(folder: Path | str | None = None) -> tuple[RunEntry, ...]:
    """Return the runs in a folder and below it, the newest first.

    `folder`: by default `runs`; where it does not exist, the working directory. Raises ConfigError:
    the folder does not exist.
    """
    root = Path(folder) if folder is not None else RUNS_FOLDER
    if folder is None and not root.is_dir():
        root = Path()
    if root.is_file():
        raise ConfigError(
            f"{root} is a file, and runs are looked for in a folder",
            hint=f"`palestra show {shown(root)}` shows the run of a file",
        )
    if not root.is_dir():
        raise ConfigError(f"there is no folder {root}", hint="name the folder that holds the runs")
    live = _live_counts()
    entries = [_entry(manifests, live) for manifests in runs_in(root)]
    return tuple(sorted(entries, key=lambda entry: entry.started_at, reverse=True))


def run_entry(name: Path | str, *, load: LoadSummary | None = None) -> RunEntry:
    """Return the line of one run. Raises InputDataError: see `outputs_of`.

    `load`: returns the summary of the rows at some paths; by default from the files.
    """
    manifests = [RunPaths(output).manifest for output in outputs_of(name)]
    group = [read_if_valid(path) for path in manifests]
    return _entry(group, _live_counts(), load or _load_files)


def _load_files(outputs: Sequence[Path]) -> RunSummary:
    return summarize(load_run(None, list(outputs), allow_partial=True))


def _entry(
    group: RunManifests, live: Mapping[Path, tuple[int, int]], load: LoadSummary = _load_files
) -> RunEntry:
    outputs = [output_beside(path) for path, _ in group]
    first = group[0][1]
    path = (
        outputs[0] if len(outputs) == 1 else Path(os.path.commonpath([o.parent for o in outputs]))
    )
    heads = [RunHead.of(manifest) for _, manifest in group if manifest is not None]
    head = heads[0] if heads else run_head(outputs)
    recorded_times = [head.started_at for head in heads if head.started_at is not None]
    started_at = min(recorded_times) if recorded_times else min(map(_inputs_written_at, outputs))
    if first is None and with_compressed(group[0][0]) is not None:
        problem = f"{group[0][0].name} cannot be read"
        return RunEntry(path, "", "", RunState.STOPPED, 0, 0, 0, None, None, started_at, problem)
    requested = None if first is None else _requested(first)
    counts, problem = _Counts(requested or 0), ""
    try:
        counts = _counts_of(outputs, group, requested, load)
    except PalestraError as error:
        problem = error.message
    problem = problem or _loss(group)
    running = [live[file] for output in outputs if (file := output.absolute()) in live]
    requested, scored, failed = counts.requested, counts.scored, counts.failed
    if len(running) == len(outputs) == 1:
        scored, failed = running[0]
    is_done = scored + failed >= requested and not problem
    state = RunState.DONE if is_done else RunState.STOPPED
    if running or (state is RunState.STOPPED and any(map(is_being_written, outputs))):
        state = RunState.RUNNING
    return RunEntry(
        path=path,
        environment=head.environment,
        model=head.model,
        state=state,
        requested=requested,
        scored=scored,
        failed=failed,
        mean_reward=counts.mean,
        interval=counts.interval,
        started_at=started_at,
        problem=problem,
        selected_from=head.selected_from,
    )


def _loss(group: RunManifests) -> str:
    """Return which file of scored rows is gone that had rollouts; empty when none is."""
    for path, manifest in group:
        output = output_beside(path)
        if manifest is not None and (loss := lost_rows(output, manifest)):
            return loss
    return ""


def _requested(manifest: Manifest) -> int:
    return manifest.requested if manifest.shard is None else manifest.shard.requested


# The counts


@dataclass(frozen=True, slots=True)
class _Counts:
    requested: int
    scored: int = 0
    failed: int = 0
    mean: float | None = None
    interval: tuple[float, float] | None = None


def _counts_of(
    outputs: Sequence[Path], group: RunManifests, requested: int | None, load: LoadSummary
) -> _Counts:
    """Count the rollouts. `requested`: None for a run without a manifest, of which the materialized
    inputs say what was requested.
    """
    is_whole = all(m is not None and m.accounted >= m.requested for _, m in group)
    if len(outputs) == 1 and is_whole and requested is not None:
        profiled = _profiled(RunPaths(outputs[0]), requested)
        if profiled is not None:
            return profiled
    rollouts = [path for path in outputs if path.is_file() and path.stat().st_size]
    if not rollouts:
        return _Counts(requested or 0, failed=_unscored_count(outputs, requested or 0))
    summary = load(rollouts)
    total = summary.total
    if is_reverified(outputs[0]):
        return _counted(total, total.requested, _unscored_count(outputs, total.requested))
    unended = summary.unscored.counts.get(Remedy.RESUME, 0)
    failed = total.requested - total.scored - unended
    others = [path for path in outputs if path not in rollouts]
    requested = total.requested if requested is None else requested
    failed += _unscored_count(others, requested) if others else 0
    return _counted(total, requested, failed)


def _counted(total: GroupSummary, requested: int, failed: int) -> _Counts:
    estimate = total.scores.mean_reward if total.scores else Estimate(0, None, None, None)
    low, high = estimate.low, estimate.high
    return _Counts(
        requested=requested,
        scored=total.scored,
        failed=failed,
        mean=estimate.value if total.scores else None,
        interval=None if low is None or high is None else (low, high),
    )


def _profiled(paths: RunPaths, requested: int) -> _Counts | None:
    """Return the counts of a run with one agent from its profile, when that is newer than the run."""
    if with_compressed(paths.output) is None:
        return None
    try:
        written_at = paths.agent_metrics.stat().st_mtime_ns
        if any(p.exists() and p.stat().st_mtime_ns > written_at for p in paths.recorded()[:3]):
            return None
        [agent] = orjson.loads(paths.agent_metrics.read_bytes())
        summary = agent["summary"]
        mean = summary["mean_reward"]
        low_high = mean["interval"]
        return _Counts(
            requested=requested,
            scored=summary["scored"],
            failed=summary["requested"] - summary["scored"],
            mean=mean["scored"],
            interval=None if low_high is None else (low_high[0], low_high[1]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _unscored_count(outputs: Sequence[Path], requested: int) -> int:
    """Return how many rollouts ended without a reward, at most `requested`."""
    count = 0
    for output in outputs:
        attempts = FailedAttempts()
        failures = with_compressed(RunPaths(output).failures)
        for line in read_jsonl(failures) if failures is not None else ():
            if line.ended and not line.error and FAILURE_CLASS in line.row:
                attempts.note(line.row)
        count += len(attempts.keys())
        if not is_reverified(output):  # there, no attempt is followed by another
            unscored = attempts.unscored(scored=scored_keys(output))
            count -= unscored.counts.get(Remedy.RESUME, 0)
    return min(count, requested)


# Which runs go on


def _live_counts() -> dict[Path, tuple[int, int]]:
    """Return for each output that a command of this user writes now how many rollouts are scored
    and failed.
    """
    live: dict[Path, tuple[int, int]] = {}
    for where in announcements():
        report = ask_collection(where)
        if report is not None:
            live[Path(where.output).absolute()] = (int(report["scored"]), int(report["failed"]))
    return live


def _inputs_written_at(output: Path) -> datetime:
    """Return about when a run was started: its inputs are written then, and never again."""
    paths = RunPaths(output)
    inputs = with_compressed(paths.materialized_inputs)
    times = [
        path.stat().st_mtime
        for path in (inputs, paths.manifest, output)
        if path is not None and path.exists()
    ]
    return datetime.fromtimestamp(times[0] if times else 0.0, UTC)
