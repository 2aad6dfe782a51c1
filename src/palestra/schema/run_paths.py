"""The names of a run's files: every one of them follows from the rollouts file's stem."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

COMPRESSED_SUFFIXES = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Every file of one run, named after its output.

    For `out/rollouts.jsonl` the stem is `out/rollouts`; a compressed rollouts file has the same stem
    as a plain one.
    """

    output: Path
    """The scored rows."""

    @classmethod
    def for_files(cls, rollouts: Sequence[Path]) -> "RunPaths":
        """For shards: what their names begin with is the stem of the whole.

        `jobs/part0.jsonl` and `jobs/part1.jsonl` are profiled in `jobs/part_reward_profiling.jsonl`.
        """
        if len(rollouts) == 1:
            return cls(rollouts[0])
        folders = {path.parent for path in rollouts}
        together = folders.pop() if len(folders) == 1 else _common(folders)
        names = [Path(bare_name(path)).stem for path in rollouts]
        stem = _common_beginning(names).rstrip("0123456789._-") or "rollouts"
        return cls(together / f"{stem}.jsonl")

    def _beside(self, ending: str) -> Path:
        return self.output.with_name(Path(bare_name(self.output)).stem + ending)

    @property
    def materialized_inputs(self) -> Path:
        """The expanded rows, one per requested rollout."""
        return self._beside("_materialized_inputs.jsonl")

    def new_inputs(self, token: str) -> Path:
        """Materialized inputs that are not in place yet; `token` tells commands apart."""
        return self._beside(f"_materialized_inputs.jsonl.new-{token}")

    @property
    def failures(self) -> Path:
        """One row per failed attempt."""
        return self._beside("_failures.jsonl")

    @property
    def manifest(self) -> Path:
        """What the run was made from."""
        return self._beside("_manifest.json")

    @property
    def new_manifest(self) -> Path:
        """A manifest that is not in place yet."""
        return self._beside("_manifest.json.new")

    @property
    def aggregate_metrics(self) -> Path:
        """Metrics per agent, as the environments report them."""
        return self._beside("_aggregate_metrics.json")

    @property
    def reward_profiling(self) -> Path:
        """Statistics per task."""
        return self._beside("_reward_profiling.jsonl")

    @property
    def agent_metrics(self) -> Path:
        """Statistics per agent."""
        return self._beside("_agent_metrics.json")

    @property
    def report(self) -> Path:
        """Charts, tasks and transcripts, in one page."""
        return self._beside("_report.html")

    def recorded(self) -> tuple[Path, ...]:
        """Every file that a run writes."""
        return (
            self.output,
            self.materialized_inputs,
            self.failures,
            self.manifest,
            self.aggregate_metrics,
        )

    def derived(self) -> tuple[Path, ...]:
        """What `profile` makes of a run; stale as soon as the run is another one."""
        return (self.reward_profiling, self.agent_metrics)

    def all(self) -> tuple[Path, ...]:
        """Every file, whether it is there or not."""
        return (*self.recorded(), *self.derived(), self.report)


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
