"""What is written down of a rollout that failed."""

import json
from typing import Any

import pytest

from palestra.errors import (
    FAILURES,
    CallError,
    CallEvidence,
    FieldProblem,
    Hop,
    InfraError,
    JudgeUnavailable,
    KnownCause,
    ModelError,
    Outcome,
    VerifierError,
    WrongSetting,
)
from palestra.rollouts.results import FailedRow, failed, scored
from palestra.schema import ReverifyCommand, recorded_command

ROW = {"_ng_task_index": 0, "_ng_rollout_index": 1, "agent_ref": {"name": "agent"}}
NO_TEXT = "caf\udce9"


def recorded(error: CallError, attempt: int = 1) -> FailedRow:
    return failed(ROW, error, attempt=attempt, max_attempts=3, started_at=0.0, elapsed_s=1.0)


def test_a_failure_whose_words_are_no_text_is_recorded_with_escapes() -> None:
    evidence = CallEvidence(
        hops=(Hop("env", NO_TEXT, 500, NO_TEXT),),
        problems=(FieldProblem(NO_TEXT, NO_TEXT),),
        traceback=NO_TEXT,
    )
    result = recorded(InfraError(NO_TEXT, hint=NO_TEXT, evidence=evidence))

    row = json.loads(result.line)
    assert result.message == row["message"] == row["hint"] == "caf\\udce9"
    assert row["hops"][0]["body"] == row["traceback"] == "caf\\udce9"


@pytest.mark.parametrize(
    ("error", "attempt", "terminal", "retriable"),
    [
        (ModelError("no"), 1, False, True),
        (ModelError("no"), 3, True, True),
        (VerifierError("no"), 1, True, False),
    ],
)
def test_attempts_used_up_are_told_from_what_no_attempt_can_mend(
    error: CallError, attempt: int, terminal: bool, retriable: bool
) -> None:
    row = json.loads(recorded(error, attempt).line)

    assert (row["_ng_failure_terminal"], row["retriable"]) == (terminal, retriable)


RESULT = {"responses_create_params": {"input": "q"}, "response": {}, "reward": 1.0}


@pytest.mark.parametrize(
    ("name", "outcome", "retriable"),
    [
        *((outcome.value, outcome, None) for outcome in FAILURES if outcome != Outcome.STALE),
        ("judge_failed", Outcome.JUDGE_ERROR, True),
        ("sandbox_timeout", Outcome.TIMEOUT, True),
        ("tool_server_down", Outcome.INFRA_ERROR, True),
        ("scored", Outcome.INFRA_ERROR, True),
        ("stale", Outcome.INFRA_ERROR, True),
    ],
)
def test_a_result_that_calls_itself_a_failure_is_one(
    name: str, outcome: Outcome, retriable: bool | None
) -> None:
    with pytest.raises(CallError, match=name) as raised:
        scored(ROW, {**RESULT, "_ng_failure_class": name, "error": "the pod was evicted"})

    row = json.loads(recorded(raised.value).line)
    assert row["_ng_failure_class"] == outcome.value
    assert "the pod was evicted" in row["message"]
    assert retriable is None or row["retriable"] is retriable


def test_a_terminal_failure_of_an_agents_own_is_not_tried_again() -> None:
    marked = {"_ng_failure_class": "judge_failed", "_ng_failure_terminal": True}
    with pytest.raises(CallError) as raised:
        scored(ROW, {**RESULT, **marked})

    assert recorded(raised.value).terminal


@pytest.mark.parametrize(
    ("marks", "is_kept"),
    [
        ({"_ng_failure_class": "judge_failed"}, True),
        ({"_ng_failure_class": "verifier_error"}, True),
        ({"_ng_failure_class": "sandbox_lost"}, False),
        ({"_ng_failure_class": "timeout"}, False),
        ({"_ng_no_persist": True}, False),
        ({"reward": None}, True),
        ({"reward": float("nan")}, True),
        ({"reward_components": {"a": float("inf")}}, True),
    ],
)
def test_only_an_answer_whose_verification_failed_is_kept_to_be_verified_again(
    marks: dict[str, Any], is_kept: bool
) -> None:
    response = {"output": [], "status": "incomplete"}
    with pytest.raises(CallError) as raised:
        scored(ROW, {**RESULT, "response": response, **marks})

    assert ("response" in json.loads(recorded(raised.value).line)) is is_kept


def test_a_result_that_asks_not_to_be_kept_is_no_result() -> None:
    with pytest.raises(InfraError, match="_ng_no_persist"):
        scored(ROW, {**RESULT, "_ng_no_persist": True})


def test_marks_that_are_not_set_mark_nothing() -> None:
    marks = {"_ng_failure_class": None, "_ng_no_persist": False}

    result = json.loads(scored(ROW, {**RESULT, **marks}).line)

    assert result["reward"] == 1.0
    assert not marks.keys() & result.keys()


CALL = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
CUT = {"incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize(
    ("response", "is_empty"),
    [
        ({"output": []}, True),
        ({"output": [{"type": "message", "role": "assistant", "content": None}]}, True),
        ({"output": [{"type": "message", "role": "assistant", "content": " "}]}, True),
        ({"output": [{"type": "reasoning"}, {"role": "user", "content": "go on"}]}, True),
        ({"output": [{"type": "message", "role": "assistant", "content": "4"}]}, False),
        ({"output": [{"type": "message", "content": [{"type": "refusal"}]}]}, False),
        ({"output": [CALL, {"type": "message", "role": "assistant", "content": ""}]}, False),
        ({"output": [{"type": "reasoning"}], **CUT}, True),
        ({}, False),
    ],
)
def test_an_answer_that_says_nothing_is_marked_and_scored(
    response: dict[str, Any], is_empty: bool
) -> None:
    result = scored(ROW, {**RESULT, "response": response})

    assert result.outcome.has_reward
    assert result.ending.empty is is_empty
    assert ("_ng_empty_answer" in json.loads(result.line)) is is_empty


def test_a_failure_is_recorded_with_what_went_wrong_where_that_is_known() -> None:
    rejected = WrongSetting("no tools here", cause=KnownCause.NO_TOOLS)

    assert json.loads(recorded(rejected).line)["cause"] == "model.no-tools"
    assert "cause" not in json.loads(recorded(InfraError("gone")).line)


def test_the_hint_of_a_judges_endpoint_says_that_the_command_has_the_judges_settings() -> None:
    error = JudgeUnavailable("answered 404", evidence=CallEvidence(hops=(Hop("my_judge"),)))
    error.verify_request = {"response": {"output": []}}
    command = ReverifyCommand("palestra reverify ++judge_model_name=wrong", names_judge=True)

    result = failed(
        ROW,
        error,
        attempt=1,
        max_attempts=3,
        started_at=0.0,
        elapsed_s=1.0,
        reverify_command=command,
    )

    row = json.loads(result.line)
    assert row["hint"] == (
        "if a setting of my_judge is wrong, correct it in the command that verifies again, too"
    )
    assert recorded_command(row) == command
