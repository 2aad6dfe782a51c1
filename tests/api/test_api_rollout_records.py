"""One rollout of a run: its prompt, transcript and reward, or why it failed."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from listed_runs import answered, failure, write_run
from palestra.api import failure_groups, rollout_record
from palestra.api.rollout_reading import read_rollouts
from palestra.causes import SignatureTable
from palestra.engine import Accounting, Job
from palestra.errors import InputDataError
from palestra.rollouts import Progress, announced
from palestra.schema import RolloutKey


def test_a_scored_rollout_has_its_transcript_and_its_components(tmp_path: Path) -> None:
    row = answered(1, 0.5, reward_components={"right": 1.0, "polite": 0.0}, extracted_answer="4")
    output = write_run(tmp_path / "a", [answered(0, 1), row], requested=2)
    record = rollout_record([output], 1, 0)

    assert (record.outcome, record.reward) == ("scored", 0.5)
    assert record.components == {"right": 1.0, "polite": 0.0}
    assert [entry.kind for entry in record.transcript] == ["call", "result", "assistant"]
    assert record.answer == record.transcript[-1].text
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
    assert record.transcript[0].text == record.answer == "It is 4."


def test_each_server_that_a_failure_passed_is_shown_once_with_its_own_words(tmp_path: Path) -> None:
    said = '{"error":{"message":"model: answered 500: out of order","hops":[{"body":"{\\"error'
    hops = [
        {"server": "agent", "url": "http://a:1/run", "status": 500, "body": ""},
        {"server": "agent", "url": "http://a:1/v1/responses", "status": 500, "body": said},
        {"server": "model", "url": "http://b:1/v1/responses", "status": 500, "body": said},
        {"server": "model", "url": "http://c/v1/x", "status": 500, "body": '{"detail":"no"}'},
    ]
    failed = failure(0, "model: answered 500: out of order", hops=hops)
    output = write_run(tmp_path / "a", [], requested=1, failures=[failed])

    [attempt] = rollout_record([output], 0, 0).attempts

    assert attempt.hops == (
        "agent/run: 500",
        "agent/v1/responses: 500",
        "model/v1/responses: 500",
        "model/v1/x: 500 no",
    )


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


def test_a_rollout_of_a_running_collection_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "run-dir"))
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=3)
    progress = Progress(Accounting(3))
    progress.in_flight[RolloutKey(1, 0)] = Job(key=RolloutKey(1, 0), agent="agent", attempt=1)
    with announced(output, progress):
        remedies = [rollout_record([output], task, 0).remedy for task in (1, 2)]

    assert "in flight" in remedies[0]
    assert "not started" in remedies[1]
    assert not any("--resume" in remedy for remedy in remedies)


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
    failures = [failure(0, "first"), failure(1, "second"), failure(2, "second")]
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=3, failures=failures)
    [group] = failure_groups([output])

    assert (group.failure_class, group.count, group.message) == ("verifier_error", 2, "second")
    assert (group.task, group.rollout) == (1, 0)


def test_failures_of_a_class_are_counted_by_message(tmp_path: Path) -> None:
    messages = ["KeyError", "ValueError", "ValueError"]
    failures = [failure(task, message) for task, message in enumerate(messages)]
    failures += [{**failure(3 + n, "late"), "_ng_failure_class": "timeout"} for n in range(2)]
    groups = failure_groups([write_run(tmp_path / "a", [], requested=5, failures=failures)])

    assert [(g.failure_class, g.message, g.count, g.task) for g in groups] == [
        ("verifier_error", "ValueError", 2, 1),
        ("verifier_error", "KeyError", 1, 0),
        ("timeout", "late", 2, 3),
    ]


def test_failures_that_differ_in_numbers_alone_are_one_group(tmp_path: Path) -> None:
    failures = [failure(task, f"odd {task + 2}") for task in range(3)]
    [group] = failure_groups([write_run(tmp_path / "a", [], requested=3, failures=failures)])

    assert (group.message, group.count, group.task) == ("odd 2", 3, 0)


@contextlib.contextmanager
def counted_lookups() -> Iterator[list[int]]:
    """Count how often the table of causes is searched in the block."""
    lookups = [0]

    def count(frame: FrameType, event: str, _: object) -> None:
        lookups[0] += event == "call" and frame.f_code is SignatureTable.match.__code__

    sys.setprofile(count)
    try:
        yield lookups
    finally:
        sys.setprofile(None)


def test_the_meaning_of_many_alike_failures_is_looked_up_once(tmp_path: Path) -> None:
    failures = [{**failure(task, "odd"), "cause": ""} for task in range(20)]
    output = write_run(tmp_path / "a", [], requested=20, failures=failures)
    with counted_lookups() as of_rollouts:
        assert len(list(read_rollouts([output]))) == 20
    with counted_lookups() as of_groups:
        failure_groups([output])

    assert (of_rollouts, of_groups) == ([1], [0])


def test_lines_that_are_cut_off_are_passed_over(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=1)
    with output.open("a") as file:
        file.write('{"_ng_task_index": 0, "_ng_roll')

    assert rollout_record([output], 0, 0).reward == 1
