"""What the report says of answers that were cut off at a limit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from palestra.analysis import report_values, summarize
from palestra.analysis.report.cut_answers import CutAnswers
from palestra.analysis.report.row_facts import read_row_facts
from profiled_runs import Run, scored


def answer(task: int, rollout: int, reward: float, *, tokens: int, cut: bool) -> dict[str, Any]:
    row = scored(task, rollout, reward, tokens=tokens)
    if cut:
        row["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    return row


def cut_answers(folder: Path, rows: Sequence[dict[str, Any]], *, binary: bool) -> CutAnswers:
    answers = CutAnswers.of(Run.write(folder, rows).load(), binary=binary)
    assert answers is not None
    return answers


def run_of(*, solved_tokens: int) -> list[dict[str, Any]]:
    """40 tasks: one complete and solved answer each, and one that was cut at 1,000 tokens."""
    return [
        row
        for task in range(40)
        for row in (
            answer(task, 0, 1.0, tokens=solved_tokens, cut=False),
            answer(task, 1, 0.0, tokens=1000, cut=True),
        )
    ]


def test_a_run_without_cut_answers_says_nothing_of_them(tmp_path: Path) -> None:
    frame = Run.write(tmp_path, [scored(0, 0, 1.0)]).load()

    assert CutAnswers.of(frame, binary=True) is None


def test_the_best_mean_reward_counts_every_cut_answer_as_right(tmp_path: Path) -> None:
    rows = [
        answer(0, 0, 1.0, tokens=10, cut=False),
        answer(0, 1, 0.0, tokens=50, cut=True),
        answer(1, 0, 0.0, tokens=10, cut=False),
        answer(1, 1, 1.0, tokens=50, cut=True),
    ]
    answers = cut_answers(tmp_path, rows, binary=True)

    assert (answers.count, answers.solved) == (2, 1)
    assert (answers.run_mean_reward, answers.best_mean_reward) == (0.5, 0.75)
    assert (answers.mean_reward, answers.complete_mean_reward) == (0.5, 0.5)


def test_a_cut_answer_is_solved_with_a_sum_that_falls_short_of_1(tmp_path: Path) -> None:
    rows = [answer(0, 0, 0.7 + 0.2 + 0.1, tokens=50, cut=True)]

    assert cut_answers(tmp_path, rows, binary=False).solved == 1


@pytest.mark.parametrize(("solved_tokens", "helps"), [(900, True), (100, False)])
def test_more_tokens_help_where_solved_answers_come_near_the_limit(
    tmp_path: Path, solved_tokens: int, helps: bool
) -> None:
    answers = cut_answers(tmp_path, run_of(solved_tokens=solved_tokens), binary=True)

    assert answers.length == 1000
    assert answers.more_tokens_help is helps


def test_few_solved_answers_say_nothing_of_the_limit(tmp_path: Path) -> None:
    answers = cut_answers(tmp_path, run_of(solved_tokens=900)[:20], binary=True)

    assert answers.more_tokens_help is None


def test_rows_without_token_counts_have_no_length(tmp_path: Path) -> None:
    rows = [scored(0, 0, 0.0), scored(0, 1, 1.0)]
    rows[0]["response"]["incomplete_details"] = {"reason": "max_output_tokens"}

    assert cut_answers(tmp_path, rows, binary=True).length is None


def test_rewards_other_than_0_and_1_have_no_best_mean_reward(tmp_path: Path) -> None:
    answers = cut_answers(tmp_path, [answer(0, 0, 0.3, tokens=9, cut=True)], binary=False)

    assert answers.best_mean_reward is None
    assert answers.complete_mean_reward is None


def test_the_remark_stands_among_the_findings(tmp_path: Path) -> None:
    frame = Run.write(tmp_path, run_of(solved_tokens=100)).load()
    remarks = report_values(frame, summarize(frame)).remarks

    (remark,) = [remark for remark in remarks if "cut off" in remark.head]
    assert "40 answers of 80" in remark.head
    assert "loops" in remark.text


def test_answers_cut_at_many_lengths_do_not_speak_for_a_higher_limit(tmp_path: Path) -> None:
    rows = run_of(solved_tokens=900)
    for at, row in enumerate(row for row in rows if row["reward"] == 0):
        row["response"]["usage"]["output_tokens"] = 1000 + 50 * at
    answers = cut_answers(tmp_path, rows, binary=True)

    assert (answers.shortest, answers.longest) == (1000, 2950)
    assert answers.more_tokens_help is None


def test_the_rows_of_cut_answers_name_their_limit_and_their_answers(tmp_path: Path) -> None:
    rows = run_of(solved_tokens=900)
    for row in rows:
        row |= {"responses_create_params": {"input": "?", "max_output_tokens": 1000}}
        row |= {"extracted_answer": "4" if row["_ng_task_index"] < 7 else None}
    facts = read_row_facts(Run.write(tmp_path, rows).load(), None)

    assert (facts.limits, facts.cut_with_answer) == ((1000,), 7)
