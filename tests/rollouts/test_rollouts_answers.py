"""What a failures row keeps of the model's answer, and which of it is verified again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import (
    AGENT,
    ScriptedAgent,
    paths,
    prepared,
    read_rows,
    settings,
    task,
    write_rows,
)

from palestra.errors import JudgeFailure, VerifierError, from_body, to_body, without_answer
from palestra.rollouts import TaskRows, UnverifiedAnswers, run
from palestra.rollouts import results as module
from palestra.rollouts.results import line_with_answer, reverify_command
from palestra.schema import Response, RolloutKey, encode_json, recorded_command, response_of
from palestra.transport.unverified import VERIFY, note_verify_request

SAID: dict[str, Any] = {"id": "r", "created_at": 0, "model": "m", "output": []}


def line(row: dict[str, Any], request: Any) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(line_with_answer({"message": "m"}, row, request))
    return held


def test_only_what_the_row_does_not_hold_is_kept_beside_the_answer() -> None:
    row = {"responses_create_params": {"input": "q"}, "expected": "4", "_ng_task_index": 0}
    request = {**row, "turns": 3, "expected": "5", "response": response_of("four")}

    kept = line(row, request)

    assert Response.model_validate(kept["response"]).final_text == "four"
    assert kept["verify_fields"] == {"turns": 3, "expected": "5"}


def test_without_an_answer_nothing_is_kept() -> None:
    assert line({"a": 1}, None) == line({"a": 1}, {"a": 2}) == {"message": "m"}


def test_an_answer_that_no_json_can_hold_is_said_to_be_left_out() -> None:
    assert "response_left_out" in line({}, {"response": {"output": object()}})


def test_half_a_surrogate_pair_does_not_cost_the_answer() -> None:
    assert line({}, {"response": {"output": "\ud83d"}})["response"] == {"output": "\\ud83d"}


def test_a_row_too_long_to_be_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROW_BYTES", 100)

    kept = line({}, {"response": {"output": "x" * 200}})

    assert "the row would have" in kept["response_left_out"]
    assert "response" not in kept


def test_the_answer_travels_once_and_is_not_shown() -> None:
    error = VerifierError("bug")
    error.verify_request = {"response": SAID}
    body = encode_json(to_body(error))

    again = from_body(json.loads(body))

    assert again is not None
    assert again.verify_request == {"response": SAID}
    assert body.count(b'"output"') == 1
    assert b"output" not in without_answer(body)
    assert json.loads(without_answer(body))["error"]["message"] == "bug"


def test_every_attempt_of_a_failing_judge_keeps_its_own_answer(tmp_path: Path) -> None:
    def script(_key: RolloutKey, attempt: int) -> float:
        if attempt == 2:
            raise JudgeFailure("before any answer", hint="ask it less")
        note_verify_request(VERIFY, {"response": {**SAID, "id": f"attempt {attempt}"}})
        raise JudgeFailure("cut off", hint="raise max_output_tokens")

    write_rows(tmp_path / "tasks.jsonl", [task(0)])
    asyncio.run(run(prepared(tmp_path), settings(tmp_path), ScriptedAgent(script).client))
    rows = read_rows(paths(tmp_path).failures)

    answers = [row.get("response", {}).get("id") for row in rows]
    assert answers == ["attempt 1", None, "attempt 3"]
    assert [row["hint"] for row in rows] == [
        "raise max_output_tokens",
        "ask it less",
        "raise max_output_tokens",
    ]
    command = reverify_command(settings(tmp_path))
    assert [recorded_command(row) for row in rows] == [command, None, command]


def failure(number: int, attempt: int = 1, **fields: Any) -> dict[str, Any]:
    identity = {"_ng_task_index": number, "_ng_rollout_index": 0, "agent_ref": {"name": AGENT}}
    return {**identity, "attempt": attempt, "_ng_failure_class": "judge_error", **fields}


def test_the_last_answer_of_each_rollout_that_was_not_scored_is_verified(tmp_path: Path) -> None:
    rows = [
        failure(0, response={**SAID, "id": "first"}),
        failure(1, response={**SAID, "id": "scored later"}),
        failure(0, 2, response={**SAID, "id": "second"}),
        failure(0, 3),
        failure(2),
    ]
    inputs = [task(n, _ng_task_index=n, _ng_rollout_index=0) for n in range(3)]
    scored = write_rows(tmp_path / "run.jsonl", [failure(1, reward=1.0)])
    path = write_rows(tmp_path / "run_failures.jsonl", rows)
    with path.open("a") as file:
        file.write('{"_ng_failure_class": "judge_error", "torn')

    found = UnverifiedAnswers.found_in(path, scored=scored)
    with TaskRows(write_rows(tmp_path / "inputs.jsonl", inputs)) as tasks:
        [only] = found.lines(tasks)

    assert only.row["response"]["id"] == "second"
    assert only.row["number"] == 0
    assert found.summary().startswith("1 of the failed rollouts has the model's answer; 1 more")
    assert not only.row.keys() & {"attempt", "_ng_failure_class"}


@pytest.mark.parametrize(
    ("classes", "needed"),
    [
        (("judge_error", "verifier_error"), False),
        (("verifier_error", "judge_error"), True),
    ],
)
def test_the_last_failure_of_a_rollout_decides_whether_its_judge_is_asked(
    tmp_path: Path, classes: tuple[str, str], needed: bool
) -> None:
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "response": SAID}
    path = tmp_path / "failures.jsonl"
    write_rows(path, [{"_ng_failure_class": name, **row} for name in classes])

    assert UnverifiedAnswers.found_in(path, scored=None).needs_judge is needed
