"""The names of a run's files: every one of them follows from the rollouts file's stem."""

from dataclasses import astuple, dataclass
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
    manifest: Path
    reward_profiling: Path
    agent_metrics: Path

    @classmethod
    def for_rollouts(cls, rollouts: Path | str) -> "ProfilePaths":
        rollouts = Path(rollouts)
        stem = _stem(rollouts.name)

        def beside(ending: str) -> Path:
            return rollouts.with_name(stem + ending)

        return cls(
            rollouts=rollouts,
            materialized_inputs=beside("_materialized_inputs.jsonl"),
            failures=beside("_failures.jsonl"),
            manifest=beside("_manifest.json"),
            reward_profiling=beside("_reward_profiling.jsonl"),
            agent_metrics=beside("_agent_metrics.json"),
        )

    def all(self) -> tuple[Path, ...]:
        """Every file, whether it is there or not."""
        return astuple(self)


def _stem(name: str) -> str:
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return Path(name).stem
