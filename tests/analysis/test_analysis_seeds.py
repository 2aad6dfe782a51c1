"""The table of the field: votes, seeds, and the error over seeds."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palestra.analysis import SeedRun, read_answers, score_model, summarize
from palestra.analysis.seeds.answers import NO_ANSWER, majority_of_rows
from palestra.errors import ConfigError
from palestra.metrics import compute_pass_majority_metrics, majority_at_k
from profiled_runs import Run, failed, materialized, scored

BALLOTS = st.lists(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([0.0, 0.5, 1.0])),
        min_size=4,
        max_size=4,
    ),
    min_size=1,
    max_size=5,
)
Rollout = tuple[float, object]
REWARDS = st.sampled_from([0.0, 0.25, 1.0])
# None: asked for and never scored
RAGGED = st.lists(st.lists(st.none() | REWARDS, min_size=1, max_size=5), min_size=1, max_size=4)


def seed_run(folder: Path, *tasks: list[Rollout | None], name: str = "m") -> SeedRun:
    """A run of (reward, answer) by task and rollout; None where nothing was scored."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = [(t, r, x) for t, row in enumerate(tasks) for r, x in enumerate(row)]
    rows = [scored(t, r, x[0], extracted_answer=x[1]) for t, r, x in keys if x is not None]
    run = Run.write(folder, rows, inputs=[materialized(t, r) for t, r, _ in keys])
    frame = run.load(allow_partial=True)
    return SeedRun(name, str(folder), frame, read_answers(frame))


@given(BALLOTS)
def test_votes_of_many_tasks_are_those_of_each_alone(
    tasks: list[list[tuple[str | None, float]]],
) -> None:
    numbers = {None: NO_ANSWER, "a": 0, "b": 1, "c": 2}
    answers = np.array([[numbers[answer] for answer, _ in row] for row in tasks])
    scores = np.array([[score for _, score in row] for row in tasks])

    expected = [majority_at_k(*zip(*row, strict=True)) for row in tasks]
    assert majority_of_rows(answers, scores) == pytest.approx(expected)


def test_answers_are_compared_as_text_whatever_the_order_of_rows(tmp_path: Path) -> None:
    rows = [
        scored(1, 0, 1.0, extracted_answer="4"),
        scored(0, 1, 1.0, extracted_answer=None),
        scored(0, 0, 1.0, extracted_answer=4),
        scored(2, 0, 1.0, extracted_answer={"x": 1}),
    ]
    run = Run.write(tmp_path, rows)
    answers = read_answers(run.load())

    assert answers.codes[0] == answers.codes[2] != NO_ANSWER
    assert (answers.codes[1], answers.codes[3] in {-1, answers.codes[0]}) == (NO_ANSWER, False)


def test_runs_are_seeds_when_each_has_k_rollouts(tmp_path: Path) -> None:
    runs = [
        seed_run(tmp_path / "1", [(1.0, "a"), (1.0, "a")], [(0.0, "b"), (1.0, "c")]),
        seed_run(tmp_path / "2", [(1.0, "a"), (0.0, "b")], [(0.0, "b"), (0.0, "b")]),
    ]
    found = score_model(runs, [0, 1], 2)

    assert (found.pass_1.mean, found.pass_1.seeds, found.cut) == (50.0, 2, False)
    assert found.pass_1.standard_error == pytest.approx(25.0)
    assert (found.pass_k.mean, found.majority.mean) == (75.0, pytest.approx((75 + 25) / 2))


def test_one_run_is_cut_into_rollouts_and_blocks(tmp_path: Path) -> None:
    run = seed_run(tmp_path, [(1.0, "a"), (0.0, "b"), (0.0, None), (0.0, "b"), (1.0, "a")])
    found = score_model([run], [0], 2)

    assert (found.pass_1.mean, found.pass_1.seeds) == (40.0, 5)
    assert (found.pass_k.seeds, found.left_over) == (2, 1)
    assert found.pass_k.mean == pytest.approx(70)
    assert found.majority.mean == pytest.approx((50 + 0) / 2)
    assert found.no_answer == 20.0


@settings(max_examples=60, deadline=None)
@given(RAGGED.filter(lambda tasks: any(x is not None for row in tasks for x in row)))
@example([[1.0, 1.0, 1.0, 0.0], [0.0]])
def test_a_run_of_unequal_tasks_scores_what_its_profile_says(
    tasks: list[list[float | None]],
) -> None:
    rows: list[list[Rollout | None]] = [[None if x is None else (x, "a") for x in r] for r in tasks]
    with TemporaryDirectory() as folder:
        run = seed_run(Path(folder), *rows)
        run = replace(run, answers=replace(run.answers, extracted=False))
        profile = summarize(run.frame).total.scores
        found = {p.k: score_model([run], range(len(tasks)), p.k) for p in profile.pass_at}

    assert found[1].pass_1.mean == pytest.approx(100 * profile.pass_at[0].value)
    for p in profile.pass_at:
        assert found[p.k].pass_k.mean == pytest.approx(100 * p.value)
        assert found[p.k].pass_k.tasks == p.tasks


def test_a_vote_of_a_cut_run_is_over_tasks_not_over_blocks(tmp_path: Path) -> None:
    right, wrong = (1.0, "a"), (0.0, "b")
    run = seed_run(tmp_path, [right, right, right, right], [wrong, wrong, wrong, None])
    found = score_model([run], [0, 1], 2)

    assert (found.majority.mean, found.majority.tasks) == (50.0, 2)


def test_parts_of_different_tasks_have_no_error(tmp_path: Path) -> None:
    right, wrong = (1.0, "a"), (0.0, "b")
    run = seed_run(tmp_path, [right, wrong, right, right], [wrong, wrong, wrong, None])
    one, two = (score_model([run], [0, 1], k) for k in (1, 2))

    assert (one.pass_1.standard_error, one.pass_1.seeds) == (None, 4)
    assert (two.pass_k.standard_error, two.majority.standard_error) == (None, None)


def test_a_repeat_that_failed_for_every_task_is_no_part(tmp_path: Path) -> None:
    right, wrong = (1.0, "a"), (0.0, "b")
    run = seed_run(tmp_path, [right, wrong, None], [wrong, wrong, None])
    found = score_model([run], [0, 1], 1)

    assert (found.pass_1.standard_error, found.pass_1.seeds) == (pytest.approx(25.0), 2)


@pytest.mark.filterwarnings("error")
def test_tasks_that_are_not_compared_add_no_missing_rollouts(tmp_path: Path) -> None:
    rows: list[list[Rollout | None]] = [[(1.0, "a"), None, (1.0, "a")], [(1.0, "a")]]
    found = score_model([seed_run(tmp_path, *rows)], [1], 1)

    assert (found.requested, found.pass_1.tasks, found.pass_1.seeds) == (1, 1, 1)
    assert (found.pass_1.low, found.pass_1.high) == (100.0, 100.0)


def test_failures_are_those_of_the_tasks_compared(tmp_path: Path) -> None:
    inputs = [materialized(task, 0) for task in range(2)]
    failures = [failed(0, 0, "timeout")]
    run = Run.write(tmp_path, [scored(1, 0, 1.0)], inputs=inputs, failures=failures)
    frame = run.load(allow_partial=True)
    seed = SeedRun("m", "", frame, read_answers(frame))

    assert score_model([seed], [1], 1).failures == {}


@pytest.mark.parametrize("answers", [(1, 1.0, 2), (4, "4", 5), ({"x": 1}, {"x": 1}, None)])
def test_votes_count_as_in_the_metrics_of_environments(
    tmp_path: Path, answers: tuple[object, ...]
) -> None:
    row: list[Rollout | None] = [
        (reward, answer) for reward, answer in zip((1.0, 0.5, 0.0), answers, strict=True)
    ]
    found = score_model([seed_run(tmp_path, row)], [0], 3)
    responses = [
        {"reward": reward, "extracted_answer": answer}
        for reward, answer in zip((1.0, 0.5, 0.0), answers, strict=True)
    ]

    metrics = compute_pass_majority_metrics([responses])
    assert found.majority.mean == pytest.approx(metrics["majority@3/reward"])


def test_runs_of_single_rollouts_are_put_together(tmp_path: Path) -> None:
    runs = [seed_run(tmp_path / str(n), [(float(n % 2), "a")]) for n in range(4)]
    found = score_model(runs, [0], 4)

    assert (found.pass_1.mean, found.pass_1.seeds) == (50.0, 4)
    assert (found.pass_k.mean, found.pass_k.standard_error, found.pass_k.seeds) == (100.0, None, 1)


def test_pass_at_k_is_unbiased_when_a_seed_has_more_than_k(tmp_path: Path) -> None:
    row: list[Rollout | None] = [(1.0, "a"), (0.0, "b"), (0.0, "b")]
    found = score_model([seed_run(tmp_path / str(n), row) for n in range(2)], [0], 2)

    assert found.pass_k.mean == pytest.approx(100 * 2 / 3)


def test_missing_rollouts_are_bounded_not_zero(tmp_path: Path) -> None:
    run = seed_run(tmp_path, [(1.0, "a"), None], [(1.0, "a"), (0.0, "b")])
    found = score_model([run], [0, 1], 2)

    assert found.pass_1.mean == pytest.approx(75.0)
    assert (found.pass_1.low, found.pass_1.high) == (pytest.approx(50.0), pytest.approx(75.0))
    assert (found.pass_k.mean, found.pass_k.tasks, found.pass_k.low) == (100.0, 1, 100.0)
    assert (found.majority.low, found.majority.high) == (25.0, 75.0)


def test_without_extracted_answers_there_is_no_vote(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, r, 1.0) for r in range(2)])
    frame = run.load()
    found = score_model([SeedRun("m", "", frame, read_answers(frame))], [0], 2)

    assert (found.majority, found.no_answer) == (None, None)


def test_more_attempts_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a k of 4 needs 4 rollouts of each task, and m has 1"):
        score_model([seed_run(tmp_path, [(1.0, "a")])], [0], 4)


def test_the_model_is_the_one_that_responses_name(tmp_path: Path) -> None:
    row = scored(0, 0, 1.0)
    row["response"]["model"] = "qwen"
    run = Run.write(tmp_path, [row])

    assert read_answers(run.load()).model == "qwen"
