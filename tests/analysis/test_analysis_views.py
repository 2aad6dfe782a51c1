"""The two views of every metric: over what was scored, and over what was requested."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.analysis import GroupSummary, Range, agent_metrics, profile_tasks, summarize
from profiled_runs import Run, materialized, scored

TASKS = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=3), min_size=1, max_size=3
).filter(lambda tasks: any(reward is not None for task in tasks for reward in task))


def total(folder: Path, tasks: list[list[float | None]]) -> GroupSummary:
    """The summary of a run in which rollouts without a reward are missing."""
    asked = [(t, r, reward) for t, task in enumerate(tasks) for r, reward in enumerate(task)]
    rows = [scored(t, r, reward) for t, r, reward in asked if reward is not None]
    run = Run.write(folder, rows, inputs=[materialized(t, r) for t, r, _ in asked])
    return summarize(run.load(allow_partial=True)).total


def values(group: GroupSummary) -> dict[str, float]:
    assert group.scores is not None
    scores = group.scores
    return {
        "mean": scores.mean_reward.value,
        **{f"pass@{at.k}": at.value for at in scores.pass_at},
        **{f"pass^{at.k}": at.value for at in scores.pass_hat},
        "never": scores.never_solved,
        "sometimes": scores.sometimes_solved,
        "always": scores.always_solved,
    }


def ranges(group: GroupSummary) -> dict[str, Range]:
    over = group.over_requested
    return {
        "mean": over.mean_reward,
        **{f"pass@{at.k}": at.value for at in over.pass_at},
        **{f"pass^{at.k}": at.value for at in over.pass_hat},
        "never": over.never_solved,
        "sometimes": over.sometimes_solved,
        "always": over.always_solved,
    }


@given(TASKS)
@settings(max_examples=40, deadline=None)
def test_a_range_is_of_all_that_missing_rollouts_could_have_scored(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[list[float | None]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    missing = sum(reward is None for task in tasks for reward in task)
    possible: dict[str, list[float]] = {}
    for filling in product([0.0, 1.0], repeat=missing):
        fill = iter(filling)
        whole = [[next(fill) if reward is None else reward for reward in task] for task in tasks]
        for name, value in values(total(folder, whole)).items():
            possible.setdefault(name, []).append(value)

    found = ranges(total(folder, tasks))
    assert {name: of.low for name, of in found.items()} == pytest.approx(
        {name: min(held) for name, held in possible.items()}, abs=1e-12
    )
    assert {name: of.high for name, of in found.items()} == pytest.approx(
        {name: max(held) for name, held in possible.items()}, abs=1e-12
    )


def test_views_are_one_when_nothing_is_missing(tmp_path: Path) -> None:
    group = total(tmp_path, [[0.0, 1.0], [1.0, 1.0]])

    assert all(of.known for of in ranges(group).values())
    assert {name: of.low for name, of in ranges(group).items()} == pytest.approx(values(group))


def test_rewards_beyond_zero_and_one_widen_the_range(tmp_path: Path) -> None:
    over = total(tmp_path, [[-2.0, 5.0], [1.0, None]]).over_requested

    assert (over.mean_reward.low, over.mean_reward.high) == (0.5, 2.25)


def test_a_task_row_has_both_views(tmp_path: Path) -> None:
    inputs = [materialized(0, rollout) for rollout in range(4)]
    run = Run.write(tmp_path, [scored(0, 0, 1.0), scored(0, 1, 0.0)], inputs=inputs)
    (row,) = profile_tasks(run.load(allow_partial=True))

    assert (row["pass_rate"], row["mean/reward"]) == (0.5, 0.5)
    assert row["requested"] == {
        "mean/reward": [0.25, 0.75],
        "pass_rate": [0.25, 0.75],
        "learnability": [0.1875, 0.25],
    }


def test_an_agent_has_both_views_and_one_without_a_score_only_counts(tmp_path: Path) -> None:
    inputs = [materialized(0, 0), materialized(1, 0, agent_ref={"name": "idle"})]
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=inputs)
    idle, busy = agent_metrics(run.load(allow_partial=True))

    assert (idle["num_rollouts"], idle["missing_num_rollouts"]) == (0, 1)
    assert "mean/reward" not in idle
    assert idle["summary"]["mean_reward"] == view(None, [0.0, 1.0])
    assert busy["summary"]["mean_reward"] == view(1.0, [1.0, 1.0])


def view(scored: float | None, requested: list[float]) -> dict[str, Any]:
    return {"scored": scored, "standard_error": None, "interval": None, "requested": requested}
