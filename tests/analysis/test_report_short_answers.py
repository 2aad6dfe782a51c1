"""What the report says of solved answers that are far shorter than the others."""

from pathlib import Path
from typing import Any

import pytest

from palestra.analysis import report_values, summarize
from palestra.analysis.report.short_answers import ShortAnswers
from profiled_runs import Run, scored

VERDICT = "[[A=B]]"


def run_of(folder: Path, *, usual: int, short: int, count: int, reward: float = 1.0) -> Run:
    """40 tasks with one solved answer of `usual` tokens each, and `count` with one of `short`."""
    rows = [scored(task, 0, 1.0, tokens=usual) for task in range(40)]
    rows += [gamed(task, reward, short) for task in range(count)]
    return Run.write(folder, sorted(rows, key=lambda row: row["_ng_task_index"]))


def gamed(task: int, reward: float, tokens: int) -> dict[str, Any]:
    row = scored(task, 1, reward, tokens=tokens)
    message = {"type": "output_text", "text": f"{VERDICT} they are the same"}
    row["response"]["output"] = [{"type": "message", "role": "assistant", "content": [message]}]
    return row | {"judge_evaluations": [{"verdict_label": VERDICT}]}


def test_solved_answers_far_shorter_than_the_others_are_a_finding(tmp_path: Path) -> None:
    frame = run_of(tmp_path, usual=640, short=9, count=4).load()
    [remark] = [r for r in report_values(frame, summarize(frame)).remarks if r.query]

    assert remark.query == "outcome:scored reward>=1 tokens.out<=9"
    assert "4 solved answers" in remark.head
    assert "4 of the short ones contain the verdict of their judge" in remark.text


def test_short_answers_with_a_sum_that_falls_short_of_1_are_listed_by_their_query(
    tmp_path: Path,
) -> None:
    frame = run_of(tmp_path, usual=640, short=9, count=4, reward=0.7 + 0.2 + 0.1).load()
    [remark] = [r for r in report_values(frame, summarize(frame)).remarks if r.query]

    assert "4 solved answers" in remark.head
    assert f"reward>={0.7 + 0.2 + 0.1:.17g} " in remark.query


@pytest.mark.parametrize(
    ("usual", "short", "count", "reward"),
    [
        (40, 9, 4, 1.0),  # all answers are short
        (640, 9, 2, 1.0),  # two may be chance
        (640, 9, 4, 0.0),  # no reward, nothing gamed
        (6400, 600, 4, 1.0),  # long enough to reason in
    ],
)
def test_other_short_answers_are_none(
    tmp_path: Path, usual: int, short: int, count: int, reward: float
) -> None:
    frame = run_of(tmp_path, usual=usual, short=short, count=count, reward=reward).load()

    assert ShortAnswers.of(frame) is None
