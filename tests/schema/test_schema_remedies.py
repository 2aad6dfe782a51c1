"""What helps a rollout without a score."""

from typing import Any

import pytest

from palestra.errors import FAILURES
from palestra.schema import (
    RETRIABLE_CLASSES,
    FailedAttempts,
    Remedy,
    ReverifyCommand,
    RolloutKey,
    Unscored,
    own_hint,
    recorded_command,
    remedy_of,
)

ANSWER = {"output": []}


def attempt(task: int, number: int = 1, *, terminal: bool = True, **fields: Any) -> dict[str, Any]:
    key = {"_ng_task_index": task, "_ng_rollout_index": 0}
    return {**key, "attempt": number, "_ng_failure_terminal": terminal, **fields}


def noted(*rows: dict[str, Any]) -> FailedAttempts:
    attempts = FailedAttempts()
    for row in rows:
        attempts.note(row)
    return attempts


@pytest.mark.parametrize(
    ("terminal", "retriable", "answered", "failure_class", "remedy"),
    [
        (False, True, False, "infra_error", Remedy.RESUME),
        (False, True, True, "judge_error", Remedy.RESUME),
        (True, False, True, "verifier_error", Remedy.REVERIFY),
        (True, True, True, "judge_error", Remedy.REVERIFY),
        (True, True, False, "judge_error", Remedy.MORE_ATTEMPTS),
        (True, False, False, "verifier_error", Remedy.FIX),
        (True, False, True, "data_error", Remedy.FIX),
    ],
)
def test_what_helps_follows_from_how_the_last_attempt_ended(
    *, terminal: bool, retriable: bool, answered: bool, failure_class: str, remedy: Remedy
) -> None:
    found = remedy_of(
        terminal=terminal,
        retriable=retriable,
        was_answered=answered,
        failure_class=failure_class,
    )
    assert found is remedy


def test_each_rollout_without_a_score_is_counted_under_one_remedy() -> None:
    attempts = noted(
        attempt(0, 1, terminal=False, retriable=True),
        attempt(1, 1, terminal=False, retriable=True, response=ANSWER),
        attempt(1, 2, retriable=True),
        attempt(2, retriable=True),
        attempt(3),
        attempt(4),
    )

    unscored = attempts.unscored(scored={RolloutKey(4, 0)}, missing=2)

    assert unscored.counts == {
        Remedy.RESUME: 3,
        Remedy.REVERIFY: 1,
        Remedy.MORE_ATTEMPTS: 1,
        Remedy.FIX: 1,
    }


@pytest.mark.parametrize(
    ("failure_class", "remedy"),
    [
        ("judge_error", Remedy.MORE_ATTEMPTS),
        ("timeout", Remedy.MORE_ATTEMPTS),
        ("verifier_error", Remedy.FIX),
    ],
)
def test_the_class_decides_where_a_row_does_not_record_whether_to_try_again(
    failure_class: str, remedy: Remedy
) -> None:
    unscored = noted(attempt(0, _ng_failure_class=failure_class)).unscored()

    assert unscored.counts[remedy] == 1


def test_the_classes_worth_another_attempt_are_failures() -> None:
    assert {failure.value for failure in FAILURES} > RETRIABLE_CLASSES


def recorded(text: str, **flags: bool) -> dict[str, Any]:
    """The fields of a failed attempt that kept its answer."""
    return {"response": ANSWER, "reverify": ReverifyCommand(text, **flags).as_json()}


def test_resuming_is_not_advised_for_a_failed_verification() -> None:
    command = recorded("palestra reverify --rollouts a.jsonl --with-failures '{x}'")

    words = noted(attempt(0, **command)).unscored().what_helps()

    assert "palestra reverify --rollouts a.jsonl --with-failures '{x}' scores 1" in words
    assert "--resume runs" not in words


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "palestra reverify --rollouts a.jsonl",
            "palestra reverify --rollouts a.jsonl --only 0:0 ",
        ),
        ("", "`palestra reverify --with-failures --only 0:0` "),
        ("gym eval reverify --rollouts a.jsonl", "gym eval reverify --rollouts a.jsonl scores "),
    ],
)
def test_the_command_for_one_rollout_verifies_it_alone_where_it_can(
    command: str, expected: str
) -> None:
    unscored = noted(attempt(0, **recorded(command))).unscored(only=("0:0",))

    assert expected in unscored.what_helps()


def test_failures_of_several_runs_name_the_command_without_their_arguments() -> None:
    attempts = noted(
        attempt(0, **recorded("palestra reverify A")),
        attempt(1, **recorded("palestra reverify B")),
    )

    assert "`palestra reverify --with-failures` scores 2" in attempts.unscored().what_helps()


def test_a_recorded_need_of_the_live_session_decides_and_not_the_text_of_the_command() -> None:
    needs = noted(attempt(0, **recorded("palestra reverify A", needs_session=True)))
    mentions = noted(attempt(0, **recorded("palestra reverify --force.jsonl --force")))

    assert "needs the live session" in needs.unscored().what_helps()
    assert "needs the live session" not in mentions.unscored().what_helps()


def test_where_verify_needs_the_live_session_no_advice_forces_it() -> None:
    row = attempt(0, **recorded("palestra reverify A --force", needs_session=True))
    words = noted(row).unscored(only=("0:0",)).what_helps()

    assert "--force" not in words
    assert "palestra reverify A --only 0:0 scores the kept answers" in words
    assert "REVERIFY_MODE" in words


def test_a_recorded_judge_decides_and_not_the_text_of_the_command() -> None:
    names = noted(attempt(0, **recorded("palestra reverify A", names_judge=True)))
    mentions = noted(attempt(0, **recorded("palestra reverify --judge x")))

    assert "the judge's model, say" in names.unscored().what_helps()
    assert "the judge's model, say" not in mentions.unscored().what_helps()


OLD_HINT = "raise it; the model's answer is kept: {} verifies it without the model"


def test_a_row_of_an_older_version_has_the_command_in_its_hint() -> None:
    row = {"hint": OLD_HINT.format("palestra reverify A --judge x --force")}

    assert recorded_command(row) == ReverifyCommand(
        "palestra reverify A --judge x", needs_session=True, names_judge=True
    )
    assert own_hint(row["hint"]) == "raise it"


@pytest.mark.parametrize("row", [{}, {"hint": "look"}, {"hint": None}, {"reverify": "text"}])
def test_a_row_may_record_no_command(row: dict[str, Any]) -> None:
    assert recorded_command(row) is None


def test_nothing_helps_where_every_rollout_has_a_score() -> None:
    assert Unscored().what_helps() == ""
