"""The names of a run's files: every one of them follows from the rollouts file's stem."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

COMPRESSED_SUFFIXES = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class ProfilePaths:
    """Where a run keeps what profiling reads, and where profiling writes.

    For `out/rollouts.jsonl` the stem is `out/rollouts`; a compressed rollouts file has the
    same stem as a plain one.
    """

    rollouts: Path
    materialized_inputs: Path
    failures: Path
    reward_profiling: Path
    agent_metrics: Path
    report: Path
    manifest: Path
    aggregate_metrics: Path

    @classmethod
    def for_rollouts(cls, rollouts: Path | str) -> "ProfilePaths":
        rollouts = Path(rollouts)
        stem = Path(bare_name(rollouts)).stem

        def beside(ending: str) -> Path:
            return rollouts.with_name(stem + ending)

        return cls(
            rollouts=rollouts,
            materialized_inputs=beside("_materialized_inputs.jsonl"),
            failures=beside("_failures.jsonl"),
            reward_profiling=beside("_reward_profiling.jsonl"),
            agent_metrics=beside("_agent_metrics.json"),
            report=beside("_report.html"),
            manifest=beside("_manifest.json"),
            aggregate_metrics=beside("_aggregate_metrics.json"),
        )

    @classmethod
    def for_files(cls, rollouts: Sequence[Path]) -> "ProfilePaths":
        """For shards: what their names begin with is the stem of the whole.

        `jobs/part0.jsonl` and `jobs/part1.jsonl` are profiled in `jobs/part_reward_profiling.jsonl`.
        """
        if len(rollouts) == 1:
            return cls.for_rollouts(rollouts[0])
        folders = {path.parent for path in rollouts}
        together = folders.pop() if len(folders) == 1 else _common(folders)
        names = [Path(bare_name(path)).stem for path in rollouts]
        stem = _common_beginning(names).rstrip("0123456789._-") or "rollouts"
        return cls.for_rollouts(together / f"{stem}.jsonl")


def _common(folders: Iterable[Path]) -> Path:
    return Path(os.path.commonpath([folder.absolute() for folder in folders]))


def _common_beginning(names: Sequence[str]) -> str:
    # the first and the last in order differ where any two do
    low, high = min(names), max(names)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False))
    return "".join(letter for letter, _ in same)


def bare_name(path: Path) -> str:
    """The file's name without what says that it is compressed."""
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def with_compressed(path: Path) -> Path | None:
    """`path`, or the compressed file in its place; None when there is neither."""
    candidates = (path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED_SUFFIXES))
    return next((candidate for candidate in candidates if candidate.exists()), None)
