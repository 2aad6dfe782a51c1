"""Rows that real environments wrote, and a small run of our own, profiled field by field."""

import json
from pathlib import Path
from typing import Any

import pytest
from plain_profile import profile, statistics_of

from palestra.analysis import (
    agent_metrics,
    load_run,
    profile_tasks,
    summarize,
    write_agent_metrics,
    write_reward_profiling,
)
from palestra.metrics import aggregate_metrics
from palestra.schema import RunPaths
from profiled_runs import Run, key

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "recorded"
FILES = sorted(RECORDED.glob("*/rollouts.jsonl"))
GOLDEN = Path(__file__).parent / "golden"
OURS = {
    "outcomes",
    "pass_rate",
    "learnability",
    "learnability_interval",
    "reward_histogram",
    "reward_length_correlation",
    "requested",
}

recorded = pytest.mark.skipif(not FILES, reason="no recorded rollouts beside the repository")
each_recorded = pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)


def rows_of(path: Path, *, repeats: int = 1) -> list[dict[str, Any]]:
    """What was recorded; `repeats` of the rows make a task."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [row | key(*divmod(place, repeats)) for place, row in enumerate(lines)]


@recorded
@each_recorded
@pytest.mark.parametrize("repeats", [1, 3])
def test_recorded_rollouts_are_profiled_field_by_field(
    tmp_path: Path, path: Path, repeats: int
) -> None:
    rows = rows_of(path, repeats=repeats)
    inputs = [
        {name: row[name] for name in row if name not in {"response", "reward"}} for row in rows
    ]
    found = list(profile_tasks(Run.write(tmp_path, rows, inputs=inputs).load()))

    expected = list(profile(inputs, rows))
    for mine, theirs in zip(found, expected, strict=True):
        assert set(mine) - set(theirs) == OURS
        for name, value in theirs.items():
            assert mine[name] == (
                pytest.approx(value, abs=1e-12) if isinstance(value, float) else value
            )


@recorded
@each_recorded
def test_an_agents_statistics_are_what_the_environment_would_aggregate(
    tmp_path: Path, path: Path
) -> None:
    rows = rows_of(path)
    frame = Run.write(tmp_path, rows).load()

    (agent,) = agent_metrics(frame)
    aggregated = aggregate_metrics(rows)["agent_metrics"]
    assert {name: agent[name] for name in agent if "/" in name} == aggregated
    assert aggregated == pytest.approx(statistics_of(rows), abs=1e-12)
    assert summarize(frame).total.scored == len(rows)


def test_a_small_run_gives_the_golden_files_byte_for_byte(tmp_path: Path) -> None:
    golden = RunPaths(GOLDEN / "run.jsonl")
    written = RunPaths(tmp_path / "run.jsonl")
    frame = load_run(golden.materialized_inputs, golden.output, allow_partial=True)
    write_reward_profiling(frame, written.reward_profiling)
    write_agent_metrics(frame, written.agent_metrics)

    assert written.reward_profiling.read_text() == golden.reward_profiling.read_text()
    assert written.agent_metrics.read_text() == golden.agent_metrics.read_text()


def test_the_golden_profile_is_what_the_contract_says() -> None:
    paths = RunPaths(GOLDEN / "run.jsonl")
    inputs, rollouts, profiled = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (paths.materialized_inputs, paths.output, paths.reward_profiling)
    )

    for mine, theirs in zip(profiled, profile(inputs, rollouts), strict=True):
        assert set(mine) - set(theirs) == OURS
        for name, value in theirs.items():
            assert mine[name] == (
                pytest.approx(value, abs=1e-12) if isinstance(value, float) else value
            )
