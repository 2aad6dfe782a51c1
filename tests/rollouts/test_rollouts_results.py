"""What is written down of a rollout that failed."""

import json

import pytest

from palestra.errors import (
    CallError,
    Evidence,
    FieldProblem,
    Hop,
    InfraError,
    ModelError,
    VerifierError,
)
from palestra.rollouts.results import Failed, failed

ROW = {"_ng_task_index": 0, "_ng_rollout_index": 1, "agent_ref": {"name": "agent"}}
NO_TEXT = "caf\udce9"


def recorded(error: CallError, attempt: int = 1) -> Failed:
    return failed(ROW, error, attempt=attempt, max_attempts=3, started_at=0.0, elapsed_s=1.0)


def test_a_failure_whose_words_are_no_text_is_recorded_with_escapes() -> None:
    evidence = Evidence(
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
