"""The final table's numbers."""

from pathlib import Path
from typing import Any

import pytest

from palestra.analysis import summarize
from profiled_runs import Run, failed, materialized, scored


def test_a_summary_counts_what_was_asked_and_what_came(tmp_path: Path) -> None:
    inputs = [materialized(task, rollout) for task in range(3) for rollout in range(2)]
    rows = [scored(0, 0, 1.0), scored(0, 1, 1.0), scored(1, 0, 0.0)]
    failures = [failed(2, 0, "timeout"), failed(1, 1, "infra_error")]
    run = Run.write(tmp_path, rows, inputs=inputs, failures=failures)
    total = summarize(run.load(allow_partial=True)).total

    assert (total.tasks, total.requested, total.scored, total.coverage) == (3, 6, 3, 0.5)
    assert total.failures == {"infra_error": 1, "timeout": 1}
    assert total.unaccounted == 1


@pytest.mark.parametrize(
    ("failures", "key"), [([], "1:1"), ([failed(7, 0, "timeout"), failed(3, 1, "timeout")], "3:1")]
)
def test_a_summary_names_the_first_failed_rollout_or_the_lowest_reward(
    tmp_path: Path, failures: list[dict[str, Any]], key: str
) -> None:
    rows = [scored(0, 0, 1.0), scored(1, 0, 0.5), scored(1, 1, 0.0), scored(9, 0, 0.0)]
    inputs = [materialized(task, index) for task in (0, 1, 3, 7, 9) for index in range(2)]
    run = Run.write(tmp_path, rows, inputs=inputs, failures=failures)

    rollout = summarize(run.load(allow_partial=True)).to_look_at

    assert rollout is not None
    assert (rollout.key, rollout.has_reward) == (key, not failures)


def test_a_summary_tells_truncated_and_empty_answers_of_the_scored(tmp_path: Path) -> None:
    rows = [scored(task, 0, 1.0) for task in range(4)]
    rows[0]["response"] = {"incomplete_details": {"reason": "max_output_tokens"}}
    rows[1]["_ng_empty_answer"] = rows[2]["_ng_empty_answer"] = True

    frame = Run.write(tmp_path, rows).load()

    total = summarize(frame).total
    assert (total.scored, total.truncated, total.empty_answers) == (4, 1, 2)
    assert (total.as_json()["truncated"], total.as_json()["empty_answers"]) == (1, 2)
    assert "_ng_empty_answer" not in frame.rollouts.columns.values


def test_a_summary_counts_the_rollouts_that_a_limit_of_turns_ended(tmp_path: Path) -> None:
    rows = [{**scored(task, 0, 1.0), "turn_limit_reached": task < 3} for task in range(4)]

    assert summarize(Run.write(tmp_path, rows).load()).total.at_turn_limit == 3


def test_a_summary_counts_tool_failures_and_rewards_outside_the_rules(tmp_path: Path) -> None:
    rows = [scored(task, 0, float(task)) for task in range(4)]
    rows[0]["tool_failures"] = [{"tool": "look_up", "type": "KeyError"}]
    rows[1]["tool_failures"] = []
    rows[2]["outside_reward_rules"] = rows[3]["outside_reward_rules"] = [0.0, 1.0]

    total = summarize(Run.write(tmp_path, rows).load()).total

    assert total.tool_failures == total.as_json()["tool_failures"] == 1
    outside = total.outside_rules
    assert outside is not None
    assert (outside.rewards, outside.lowest, outside.highest) == (2, 2.0, 3.0)
    assert total.as_json()["outside_reward_rules"] == 2


def test_scores_tell_never_from_sometimes_and_always(tmp_path: Path) -> None:
    rewards = [(0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 1, 1), (1, 1, 0, 0)]
    rows = [scored(t, r, x, tokens=t) for t, row in enumerate(rewards) for r, x in enumerate(row)]
    scores = summarize(Run.write(tmp_path, rows).load()).total.scores

    assert scores is not None
    assert (scores.never_solved, scores.sometimes_solved, scores.always_solved) == (0.25, 0.5, 0.25)
    assert [(p.k, p.tasks) for p in scores.pass_at] == [(1, 4), (2, 4), (4, 4)]
    assert [p.value for p in scores.pass_at] == pytest.approx(
        [7 / 16, (1 / 2 + 1 + 5 / 6) / 4, 0.75]
    )
    assert (scores.mean_input_tokens, scores.mean_output_tokens) == (7.0, 1.5)


def test_a_sum_that_falls_short_of_1_by_a_rounding_is_solved(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 0.7 + 0.2 + 0.1), scored(1, 0, 1 - 1e-6)])
    scores = summarize(run.load()).total.scores

    assert scores is not None
    assert (scores.never_solved, scores.always_solved) == (0.5, 0.5)
    assert scores.mean_reward.value < 1


def test_pass_at_k_is_also_for_the_number_of_repeats(tmp_path: Path) -> None:
    rows = [scored(task, at, float(at == task)) for task in range(2) for at in range(3)]
    scores = summarize(Run.write(tmp_path, rows).load()).total.scores

    assert scores is not None
    assert [(p.k, p.value) for p in scores.pass_at] == [
        (1, pytest.approx(1 / 3)),
        (2, pytest.approx(2 / 3)),
        (3, 1.0),
    ]


def test_pass_at_k_says_how_many_tasks_it_is_of(tmp_path: Path) -> None:
    rows = [scored(0, 0, 0.0), scored(1, 0, 0.0), scored(1, 1, 1.0)]
    scores = summarize(Run.write(tmp_path, rows).load()).total.scores

    assert scores is not None
    assert [(p.k, p.value, p.tasks) for p in scores.pass_at] == [(1, 0.25, 2), (2, 1.0, 1)]


def test_the_interval_is_clustered_by_task(tmp_path: Path) -> None:
    rows = [scored(task, rollout, task % 2) for task in range(40) for rollout in range(8)]
    reward = summarize(Run.write(tmp_path, rows).load()).total.scores.mean_reward

    assert reward.value == 0.5
    assert reward.standard_error == pytest.approx((1 / 39) ** 0.5 / 2)
    assert reward.high - reward.low == pytest.approx(2 * 2.02 * reward.standard_error, rel=0.1)


def test_one_task_gives_a_mean_without_an_interval(tmp_path: Path) -> None:
    reward = summarize(Run.write(tmp_path, [scored(0, 0, 1.0)]).load()).total.scores.mean_reward

    assert (reward.value, reward.low, reward.high) == (1.0, None, None)


def test_families_come_by_name_with_their_failures(tmp_path: Path) -> None:
    inputs = [
        materialized(t, 0, task_name=name) for t, name in enumerate(["maze", "chess", "chess"])
    ]
    inputs.append(materialized(3, 0))
    rows = [scored(1, 0, 1.0), scored(2, 0, 0.0), scored(3, 0, 1.0)]
    run = Run.write(tmp_path, rows, inputs=inputs, failures=[failed(0, 0, "timeout")])
    chess, maze, other = summarize(run.load(allow_partial=True, group_by="task_name")).by_family

    assert (chess.name, chess.requested, chess.scores.mean_reward.value) == ("chess", 2, 0.5)
    assert (maze.name, maze.scores, maze.failures) == ("maze", None, {"timeout": 1})
    assert (other.name, other.scored) == ("(none)", 1)


def test_agents_each_have_a_line(tmp_path: Path) -> None:
    rows = [scored(0, 0, 1.0), scored(1, 0, 0.0, agent_ref={"name": "another"})]
    summary = summarize(Run.write(tmp_path, rows).load())

    assert [line.name for line in summary.by_agent] == ["another", "simple_agent"]
    assert summary.by_family == []
