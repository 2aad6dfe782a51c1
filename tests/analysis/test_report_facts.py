"""The report's numbers, and which tasks and rollouts it picks."""

from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.analysis import RunFrame, report_values, summarize
from palestra.analysis.report.charts import nice_ticks, span_ticks
from palestra.analysis.report.facts import (
    lengths,
    pass_curve,
    pass_rate_bars,
    reward_bars,
    time_field,
)
from palestra.analysis.report.figures import figures
from palestra.analysis.report.rows import MOST_ROLLOUTS, plan
from palestra.analysis.report.statements import key_figures, remarks
from palestra.analysis.report.tasks import by_interest, table_data, task_columns, task_lists
from profiled_runs import Run, failed, materialized, scored

TASKS = st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=5)


def frame_of(folder: Path, rewards: list[list[float]], **fields: Any) -> RunFrame:
    """A run with these rewards; a rollout's tokens are 10 more than its number."""
    rows = [
        scored(task, rollout, float(reward), tokens=10 + rollout, **fields)
        for task, row in enumerate(rewards)
        for rollout, reward in enumerate(row)
    ]
    return Run.write(folder, rows).load()


@given(TASKS)
@settings(max_examples=40)
def test_the_curve_is_the_mean_over_all_draws(tasks: list[list[bool]]) -> None:
    with TemporaryDirectory() as folder:
        frame = frame_of(Path(folder), [[float(x) for x in row] for row in tasks])
    for point in pass_curve(frame.rollouts, summarize(frame).total.scores):
        draws = [list(combinations(row, point.k)) for row in tasks if len(row) >= point.k]
        assert point.tasks == len(draws)
        for share, how in ((point.best.mean, any), (point.worst, all)):
            expected = np.mean([np.mean([how(draw) for draw in of_task]) for of_task in draws])
            assert share == pytest.approx(expected)


def test_the_curve_says_what_the_summary_says(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [[0.3, 0.7, 1.0], [0.1], [0.5, 0.5, 0.5, 2.0]])
    scores = summarize(frame).total.scores
    pass_at, points = scores.pass_at, pass_curve(frame.rollouts, scores)

    assert [point.best.mean for point in points] == pytest.approx([at.value for at in pass_at])
    assert [point.tasks for point in points] == [at.tasks for at in pass_at]
    assert points[-1].best.low is None


def test_few_different_rewards_each_have_a_bar() -> None:
    bars = reward_bars(np.array([0.0, 0.5, 0.5, 1.0]))

    assert [(bar.label, bar.count) for bar in bars] == [("0", 1), ("0.5", 2), ("1", 1)]


def test_rewards_that_read_the_same_have_one_bar() -> None:
    bars = reward_bars(np.array([0.0, 0.7 + 0.2 + 0.1, 1.0]))

    assert [(bar.label, bar.count, bar.high) for bar in bars] == [("0", 1, 0.0), ("1", 2, 1.0)]


def test_rewards_that_are_equally_frequent_are_none_the_most_frequent(tmp_path: Path) -> None:
    readings = {}
    for name, rewards in (("tie", [0.2, 0.2, 0.8, 0.8]), ("winner", [0.2, 0.8, 0.8, 0.8])):
        (tmp_path / name).mkdir()
        frame = frame_of(tmp_path / name, [rewards])
        readings[name] = "".join(map(str, figures(frame, report_values(frame, summarize(frame)))))

    assert "From 0.2 to 0.8. " in readings["tie"]
    assert "most often 0.8" in readings["winner"]


def test_many_rewards_are_binned_without_losing_one() -> None:
    bars = reward_bars(np.linspace(-1, 1, 333))

    assert len(bars) == 20
    assert sum(bar.count for bar in bars) == 333


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=30))
def test_every_task_is_in_the_bar_whose_bounds_hold_its_rate(pairs: list[tuple[int, int]]) -> None:
    solved = np.array([min(c, n) for c, n in pairs])
    trials = np.array([n for _, n in pairs])
    bars = pass_rate_bars(solved, trials)
    rates = solved / trials

    for bar in bars:
        assert np.sum((rates >= bar.low) & (rates <= bar.high)) == bar.count
    assert bars[0].count == np.sum(solved == 0)
    assert bars[-1].count == np.sum(solved == trials)
    assert sum(bar.count for bar in bars) == len(pairs)


def test_pass_rates_are_by_number_solved() -> None:
    bars = pass_rate_bars(np.array([0, 1, 1, 3]), np.array([3, 3, 3, 3]))
    assert [(bar.label, bar.count) for bar in bars] == [
        ("0/3", 1),
        ("1/3", 2),
        ("2/3", 0),
        ("3/3", 1),
    ]


def test_pass_rates_of_unequal_numbers_of_rollouts_are_rates() -> None:
    bars = pass_rate_bars(np.array([0, 4, 5, 8]), np.array([8, 8, 5, 8]))
    counted = [(bar.label, bar.count) for bar in bars if bar.count]
    assert counted == [("0 %", 1), ("40 to 50 %", 1), ("100 %", 2)]


def test_a_headline_over_few_tasks_says_over_how_many(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [[1.0, 0.0, 1.0, 0.0], [1.0], [0.0, 0.0]])
    notes = {at.name: at.note for at in key_figures(summarize(frame), binary=True)}

    assert notes["pass@4"] == "best of 4, over 1 of 3 tasks"
    assert notes["pass@1"] == "one rollout"


def test_lengths_hold_every_rollout_once(tmp_path: Path) -> None:
    rows = [scored(0, at, float(at % 2), tokens=int(1.5**at)) for at in range(20)]
    found = lengths(Run.write(tmp_path, rows).load().rollouts)

    assert found.logarithmic
    assert sum(one.rollouts for one in found.bins) == 20
    assert all(one.low <= one.high for one in found.bins)


def test_without_tokens_there_are_no_lengths(tmp_path: Path) -> None:
    rollouts = Run.write(tmp_path, [scored(0, 0, 1.0)]).load().rollouts

    assert lengths(rollouts) is None
    assert time_field(rollouts) is None


def test_the_field_of_times_is_recognised(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [[1.0]], elapsed_s=3.5, score=1)

    assert time_field(frame.rollouts) == "elapsed_s"
    titles = [one.title for one in task_lists(task_columns(frame), frame.rollouts)]
    assert "Slowest" in titles
    assert "Longest" not in titles


@pytest.mark.parametrize("most", [1, 3, 7, 10, 11, 80, 1234, 320_000])
def test_ticks_are_few_and_reach_the_top(most: int) -> None:
    ticks = nice_ticks(most)

    assert ticks[0] == 0
    assert ticks[-1] >= most
    assert all(tick == round(tick) for tick in ticks)
    assert 2 <= len(ticks) <= 6


def test_ticks_of_a_span_lie_inside_it() -> None:
    assert span_ticks(-0.13, 0.31) == [-0.1, 0, 0.1, 0.2, 0.3]
    assert span_ticks(0, 1) == [0, 0.25, 0.5, 0.75, 1]


def test_a_list_with_the_tasks_of_another_is_left_out(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [[1, 0, 0, 0], [1, 1, 0, 0]])

    titles = [one.title for one in task_lists(task_columns(frame), frame.rollouts)]

    assert "Most learnable" in titles
    assert "Hardest, yet solved" not in titles


@pytest.mark.parametrize(("lengths", "is_listed"), [((5, 5), False), ((5, 6), True)])
def test_the_longest_tasks_are_listed_where_lengths_differ(
    tmp_path: Path, lengths: tuple[int, int], is_listed: bool
) -> None:
    rows = [scored(task, 0, 1.0, tokens=tokens) for task, tokens in enumerate(lengths)]
    frame = Run.write(tmp_path, rows).load()

    titles = [one.title for one in task_lists(task_columns(frame), frame.rollouts)]

    assert ("Longest" in titles) is is_listed


def test_lists_name_the_extremes(tmp_path: Path) -> None:
    rewards = [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 1],
        *[[1, 1, 1, 0]] * 5,
        [1, 0, 0, 0],
    ]
    frame = frame_of(tmp_path, rewards)
    found = {one.title: one for one in task_lists(task_columns(frame), frame.rollouts)}

    assert list(found["Most learnable"].positions) == [2, 1, 4, 5, 6, 7]
    assert list(found["Hardest, yet solved"].positions) == [1, 9, 2, 4, 5, 6]
    assert list(found["Never solved"].positions) == [0]
    assert found["Hardest, yet solved"].figures[0] == "1/4"
    assert "Most rollouts without a score" not in found


def test_rewards_that_are_not_binary_are_ranked_by_their_spread(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [[0.2, 0.2], [0.1, 0.9], [0.4, 0.5]])
    found = {one.title: one for one in task_lists(task_columns(frame), frame.rollouts)}

    assert list(found["Most variable"].positions) == [1, 2]


def test_tasks_with_missing_rollouts_are_listed(tmp_path: Path) -> None:
    inputs = [materialized(0, rollout) for rollout in range(3)]
    run = Run.write(
        tmp_path, [scored(0, 0, 1.0)], inputs=inputs, failures=[failed(0, 1, "timeout")]
    )
    frame = run.load(allow_partial=True)
    (found,) = [
        one
        for one in task_lists(task_columns(frame), frame.rollouts)
        if one.title == "Most rollouts without a score"
    ]

    assert list(found.figures) == ["2 of 3"]


@given(TASKS)
@settings(max_examples=40)
def test_every_task_has_one_place_in_the_order_of_interest(tasks: list[list[bool]]) -> None:
    with TemporaryDirectory() as folder:
        frame = frame_of(Path(folder), [[float(x) for x in row] for row in tasks])
    columns = task_columns(frame)
    order = by_interest(columns, task_lists(columns, frame.rollouts))

    assert sorted(order) == list(range(len(tasks)))


def why(folder: Path, *rows: dict[str, Any]) -> list[tuple[int, str]]:
    rollouts = Run.write(folder, rows).load().rollouts
    return [tuple(choice) for choice in plan(rollouts, [0])[0]]


def test_the_best_the_worst_and_the_median_are_chosen(tmp_path: Path) -> None:
    rows = [
        scored(0, 0, 1.0, tokens=9),
        scored(0, 1, 1.0, tokens=5),
        scored(0, 2, 0.5, tokens=50),
        scored(0, 3, 0.0, tokens=7),
        scored(0, 4, 0.0, tokens=8),
    ]
    assert why(tmp_path, *rows) == [(1, "best"), (4, "worst"), (2, "median")]


def test_of_equal_rollouts_the_shortest_and_the_longest_are_chosen(tmp_path: Path) -> None:
    rows = [scored(0, at, 0.0, tokens=tokens) for at, tokens in enumerate([8, 5, 9])]

    assert why(tmp_path, *rows) == [(1, "shortest"), (2, "longest")]


def test_one_rollout_is_the_only_one(tmp_path: Path) -> None:
    assert why(tmp_path, scored(0, 0, 1.0)) == [(0, "the only one")]


def test_the_plan_is_bounded_in_rollouts(tmp_path: Path) -> None:
    rollouts = frame_of(tmp_path, [[1.0, 0.0], [1.0, 0.0]]).rollouts
    chosen = plan(rollouts, (at % 2 for at in range(MOST_ROLLOUTS)))

    assert sum(map(len, chosen.values())) <= MOST_ROLLOUTS


def test_the_table_has_a_digit_per_rollout(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [[0.0, 0.5, 1.0], [1.0]])
    data = table_data(frame, task_columns(frame), [0, 1], ["a", "b"])

    assert data["rewards"] == ["049", "9"]
    assert data["solved"] == [1, 1]
    assert data["mean"] == [0.5, 1]
    assert data["tokens"] == [11, 10]
    assert data["time"] == data["groups"] == []


@pytest.mark.parametrize(("lost", "verb"), [(1, "rollout of 3 has"), (2, "rollouts of 3 have")])
def test_rollouts_without_a_score_are_counted_in_good_english(
    tmp_path: Path, lost: int, verb: str
) -> None:
    inputs = [materialized(task, 0) for task in range(3)]
    rows = [scored(task, 0, 1.0) for task in range(lost, 3)]
    failures = [failed(task, 0, "timeout") for task in range(lost)]
    frame = Run.write(tmp_path, rows, inputs=inputs, failures=failures).load(allow_partial=True)

    assert f"{lost} requested {verb} no score." in [
        remark.head for remark in remarks(frame, summarize(frame))
    ]


def test_rewards_outside_the_rules_are_a_remark(tmp_path: Path) -> None:
    rows = [scored(0, 0, 1.0), scored(1, 0, 2.5) | {"outside_reward_rules": [0.0, 1.0]}]
    frame = Run.write(tmp_path, rows).load()

    heads = [remark.head for remark in remarks(frame, summarize(frame))]

    assert "1 reward lies outside the environment's reward_rules:" in heads


@pytest.mark.parametrize(("second", "unused"), [("layout", [("format",)]), ("format", [])])
def test_weights_without_a_component_in_any_row_are_a_remark(
    tmp_path: Path, second: str, unused: list[tuple[str, ...]]
) -> None:
    rows = [
        scored(0, 0, 1.0) | {"reward_components": {"layout": 1.0}, "unused_weights": ["format"]},
        scored(1, 0, 1.0) | {"reward_components": {second: 1.0}},
    ]
    frame = Run.write(tmp_path, rows).load()
    summary = summarize(frame)

    remarked = [remark for remark in remarks(frame, summary) if "had no effect" in remark.head]

    assert [weights.weights for weights in summary.unused_weights] == unused
    assert len(remarked) == len(unused)
    assert all("it returned 'layout'" in remark.text for remark in remarked)


def test_remarks_take_the_advice_that_their_report_has_made_already(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=[materialized(n, 0) for n in range(2)])
    frame = run.load(allow_partial=True)

    texts = [remark.text for remark in remarks(frame, summarize(frame), lambda _: "as advised")]

    assert "as advised" in texts
    assert texts[-1].endswith("What helps: as advised.")
