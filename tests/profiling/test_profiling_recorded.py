"""Rows that real environments wrote, profiled end to end."""

import json
from pathlib import Path

import pytest
from profiled_runs import Run, key

from palestra.profiling import agent_metrics, aggregate_metrics, profile_tasks, summarize

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "recorded"
FILES = sorted(RECORDED.glob("*/rollouts.jsonl"))

pytestmark = pytest.mark.skipif(not FILES, reason="no recorded rollouts beside the repository")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_recorded_rollouts_are_profiled(tmp_path: Path, path: Path) -> None:
    recorded = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row | key(place, 0) for place, row in enumerate(recorded)]
    frame = Run.write(tmp_path, rows).load()

    assert [row["mean/reward"] for row in profile_tasks(frame)] == [row["reward"] for row in rows]
    assert summarize(frame).total.scored == len(rows)
    (agent,) = agent_metrics(frame)
    del agent["agent_ref"]
    assert aggregate_metrics(rows)["agent_metrics"] == agent
