"""Names of a run's files."""

from pathlib import Path

import pytest

import palestra.analysis
import palestra.metrics
from palestra.schema import RunPaths


@pytest.mark.parametrize("name", ["rollouts.jsonl", "rollouts.jsonl.gz", "rollouts.jsonl.zst"])
def test_every_name_follows_from_the_stem(name: str) -> None:
    paths = RunPaths(Path(f"out/{name}"))

    assert paths.output == Path("out", name)
    assert paths.materialized_inputs == Path("out/rollouts_materialized_inputs.jsonl")
    assert paths.failures == Path("out/rollouts_failures.jsonl")
    assert paths.reward_profiling == Path("out/rollouts_reward_profiling.jsonl")
    assert paths.agent_metrics == Path("out/rollouts_agent_metrics.json")


def test_every_public_name_exists() -> None:
    for door in (palestra.analysis, palestra.metrics):
        assert all(hasattr(door, name) for name in door.__all__)
