"""What a collection is asked to do. Names are those of the field's commands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """Settings of one collection; times in seconds.

    `limit`: None takes every row, 0 takes none. `num_samples_in_parallel`: None means no bound.
    """

    input_jsonl_fpath: Path
    output_jsonl_fpath: Path
    agent_name: str | None = None
    limit: int | None = None
    num_repeats: int = 1
    num_repeats_add_seed: bool = False
    num_samples_in_parallel: int | None = None
    responses_create_params: Mapping[str, Any] = field(default_factory=dict)
    prompt_config: Path | None = None
    resume_from_cache: bool = False
    disable_aggregation: bool = False
    min_coverage: float = 1.0
    rollout_timeout: float = 3600.0
    max_attempts: int = 3
    attempt_pause_s: float = 1.0
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Every file of one run, named after its output."""

    output: Path

    def _beside(self, suffix: str) -> Path:
        return self.output.with_name(f"{self.output.stem}{suffix}")

    @property
    def materialized_inputs(self) -> Path:
        """The expanded rows, one per requested rollout."""
        return self._beside("_materialized_inputs.jsonl")

    @property
    def new_inputs(self) -> Path:
        """Materialized inputs that are not in place yet."""
        return self._beside("_materialized_inputs.jsonl.new")

    @property
    def failures(self) -> Path:
        """One row per failed attempt."""
        return self._beside("_failures.jsonl")

    @property
    def manifest(self) -> Path:
        """What the run was made from."""
        return self._beside("_manifest.json")

    @property
    def aggregate_metrics(self) -> Path:
        """Metrics per agent, as the environments report them."""
        return self._beside("_aggregate_metrics.json")

    def all(self) -> tuple[Path, ...]:
        """Every file that a run writes."""
        return (
            self.output,
            self.materialized_inputs,
            self.failures,
            self.manifest,
            self.aggregate_metrics,
        )
