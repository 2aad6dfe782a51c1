"""One rollout of a run: its prompt, transcript and reward, or why it failed."""

from pathlib import Path

import pytest

from listed_runs import answered, failure, write_run
from palestra.api import failure_groups, rollout_record
from palestra.errors import InputDataError


def test_a_scored_rollout_has_its_transcript_and_its_components(tmp_path: Path) -> None:
    row = answered(1, 0.5, reward_components={"right": 1.0, "polite": 0.0}, extracted_answer="4")
    output = write_run(tmp_path / "a", [answered(0, 1), row], requested=2)
    record = rollout_record([output], 1, 0)

    assert (record.outcome, record.reward) == ("scored", 0.5)
    assert record.components == {"right": 1.0, "polite": 0.0}
    assert [entry.kind for entry in record.transcript] == ["call", "result", "assistant"]
    assert record.prompt[0].text == "question 1"
    assert str(record.prompt) == "[user]\nquestion 1"
    assert record.reported == {"extracted_answer": "4"}


def test_a_failed_rollout_says_why_and_what_helps(tmp_path: Path) -> None:
    kept = {"response": {"output": "It is 4."}}
    output = write_run(tmp_path / "a", [], requested=1, failures=[failure(0, "no number", **kept)])
    record = rollout_record([output], 0, 0)
    [attempt] = record.attempts

    assert (record.outcome, record.reward) == ("verifier_error", None)
    assert (attempt.layer, attempt.message) == ("verifier/runtime", "no number")
    assert attempt.hops == ("sums: 500",)
    assert "palestra reverify" in record.remedy
    assert record.transcript[0].text == "It is 4."


def test_a_rollout_that_is_scored_after_a_failure_needs_nothing(tmp_path: Path) -> None:
    failures = [failure(0, "no number", terminal=False)]
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=1, failures=failures)
    record = rollout_record([output], 0, 0)

    assert (record.outcome, record.remedy, len(record.attempts)) == ("scored", "", 1)


def test_a_rollout_that_has_not_begun_is_resumed(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=2)
    record = rollout_record([output], 1, 0)

    assert record.outcome == "not ended"
    assert "--resume" in record.remedy


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((9, 0), "the run has no task 9: it has 2 tasks, 0 to 1"),
        ((1, 5), "task 1 has no rollout 5"),
    ],
)
def test_a_rollout_that_was_not_requested_is_an_error(
    tmp_path: Path, key: tuple[int, int], message: str
) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=2)

    with pytest.raises(InputDataError, match=message):
        rollout_record([output], *key)


def test_failures_are_counted_by_class_without_those_that_were_scored_later(
    tmp_path: Path,
) -> None:
    failures = [failure(0, "first"), failure(1, "second"), failure(2, "third")]
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=3, failures=failures)
    [group] = failure_groups([output])

    assert (group.failure_class, group.count, group.message) == ("verifier_error", 2, "second")
    assert (group.task, group.rollout) == (1, 0)


def test_lines_that_are_cut_off_are_passed_over(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=1)
    with output.open("a") as file:
        file.write('{"_ng_task_index": 0, "_ng_roll')

    assert rollout_record([output], 0, 0).reward == 1
