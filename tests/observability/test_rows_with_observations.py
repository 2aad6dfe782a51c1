"""What of the captured calls and of the agent's report gets into a result row."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from palestra.observability import (
    AgentInvocation,
    AgentObservationBundle,
    CaptureStore,
    ModelCallRef,
    ObservationGap,
    ToolCallObservation,
    attach_trajectory_record,
    merge_model_call_capture_into_record,
    without_attachments,
)

POLICY = {"type": "responses_api_models", "name": "policy"}
CALL = {
    "model_call_id": "call_1",
    "dialect": "responses",
    "model_ref": POLICY,
    "latency_ms": 2.0,
    "request": {"input": "q"},
    "response": {"id": "resp_1", "usage": {"input_tokens": 3, "output_tokens": 1}},
}
ROW = {"_ng_task_index": 4, "_ng_rollout_index": 1}


def result(**fields: Any) -> dict[str, Any]:
    return {**ROW, "reward": 1.0, "response": {"id": "r"}, **fields}


def gaps_of(record: dict[str, Any]) -> dict[str, str | None]:
    return {gap["code"]: gap["detail"] for gap in record["ng_model_call_capture"].get("gaps", ())}


def test_captured_calls_are_merged_without_payloads(tmp_path: Path) -> None:
    CaptureStore(tmp_path).record("4-1", CALL)
    record = result()

    assert merge_model_call_capture_into_record(record, [tmp_path]) is record

    capture = record["ng_model_call_capture"]
    assert capture["rollout_id"] == "4-1"
    assert capture["metrics"]["tokens_in"] == 3
    assert capture["metrics"]["num_calls"] == 1
    call = capture["calls"][0]
    assert (call["model_call_id"], call["response_id"], call["model_ref"]) == (
        "call_1",
        "resp_1",
        POLICY,
    )
    assert not {"request", "response", "request_raw", "response_raw"} & call.keys()
    assert "gaps" not in capture
    assert (record["reward"], record["response"]) == (1.0, {"id": "r"})


def test_payloads_are_merged_when_asked_for(tmp_path: Path) -> None:
    CaptureStore(tmp_path).record("4-1", CALL)

    record = merge_model_call_capture_into_record(result(), [tmp_path], include_payloads=True)

    assert record["ng_model_call_capture"]["calls"][0]["request"] == {"input": "q"}


@pytest.mark.parametrize(
    ("fields", "rollout_id"),
    [
        ({"_ng_attempt_index": 2}, "4-1-a2"),
        ({"_ng_rollout_id": "mine"}, "mine"),
        ({"_ng_rollout_id": "mine", "_ng_attempt_index": 1}, "mine-a1"),
    ],
)
def test_the_row_names_the_rollout(tmp_path: Path, fields: dict[str, Any], rollout_id: str) -> None:
    CaptureStore(tmp_path).record(rollout_id, CALL)

    record = merge_model_call_capture_into_record(result(**fields), [tmp_path])

    assert record["ng_model_call_capture"]["rollout_id"] == rollout_id
    assert len(record["ng_model_call_capture"]["calls"]) == 1


def test_without_folders_or_identity_a_record_is_unchanged(tmp_path: Path) -> None:
    assert merge_model_call_capture_into_record(result(), []) == result()
    assert merge_model_call_capture_into_record({"reward": 1.0}, [tmp_path]) == {"reward": 1.0}


def test_calls_of_several_folders_come_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        CaptureStore(tmp_path / name).record("4-1", {**CALL, "model_call_id": name})

    record = merge_model_call_capture_into_record(result(), [tmp_path / "a", tmp_path / "b"])

    ids = [call["model_call_id"] for call in record["ng_model_call_capture"]["calls"]]
    assert ids == ["a", "b"]


def test_missing_damaged_and_unreadable_captures_are_gaps(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path / "damaged")
    store.record("4-1", CALL)
    with store.path_for("4-1").open("ab") as file:
        file.write(b"{torn\n{torn\n")
    store.mark_incomplete("4-1")
    CaptureStore(tmp_path / "broken").path_for("4-1").mkdir()

    empty = merge_model_call_capture_into_record(result(), [tmp_path / "empty"])
    damaged = merge_model_call_capture_into_record(result(), [tmp_path / "damaged"])
    broken = merge_model_call_capture_into_record(result(), [tmp_path / "broken"])

    assert gaps_of(empty) == {"model_call_capture_no_records": None}
    assert gaps_of(damaged) == {
        "model_call_capture_records_unreadable": "count=2",
        "model_call_capture_incomplete": None,
    }
    assert len(damaged["ng_model_call_capture"]["calls"]) == 1
    assert gaps_of(broken) == {"model_call_capture_unreadable": None}


def test_references_by_response_id_get_the_captured_calls_id(tmp_path: Path) -> None:
    CaptureStore(tmp_path).record("4-1", CALL)
    ref = ModelCallRef(model_ref=POLICY, response_id="resp_1")
    other = ModelCallRef(model_ref=POLICY, response_id="unknown")
    bundle = AgentObservationBundle(
        source="mine", records=[AgentInvocation(invocation_id="i", model_calls=[ref, other])]
    )

    record = merge_model_call_capture_into_record(
        result(ng_agent_observations=bundle.model_dump(mode="json")), [tmp_path]
    )

    refs = record["ng_agent_observations"]["records"][0]["model_calls"]
    assert [ref["model_call_id"] for ref in refs] == ["call_1", None]


def test_a_wrong_bundle_stays_as_it_is_and_is_a_gap(tmp_path: Path) -> None:
    CaptureStore(tmp_path).record("4-1", CALL)

    record = merge_model_call_capture_into_record(
        result(ng_agent_observations={"nonsense": 1}), [tmp_path]
    )

    assert record["ng_agent_observations"] == {"nonsense": 1}
    assert gaps_of(record) == {"agent_observation_join_failed": "ValidationError"}


def test_compactions_of_claude_code_are_associated_by_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CaptureStore(tmp_path).record("4-1", CALL)
    name = "responses_api_agents.claude_code_agent.observability"
    folder: Any = types.ModuleType(name)
    folder.associate_claude_code_compaction_calls = lambda bundle, calls: bundle.model_copy(
        update={"gaps": [ObservationGap(code="seen", detail=calls[0].request["input"])]}
    )
    bundle = {"source": "claude_code", "records": []}
    for parent in ("responses_api_agents", "responses_api_agents.claude_code_agent"):
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    monkeypatch.setitem(sys.modules, name, folder)

    record = merge_model_call_capture_into_record(result(ng_agent_observations=bundle), [tmp_path])
    folder.associate_claude_code_compaction_calls = None
    failed = merge_model_call_capture_into_record(result(ng_agent_observations=bundle), [tmp_path])

    assert [gap["detail"] for gap in record["ng_agent_observations"]["gaps"]] == ["q"]
    codes = [gap["code"] for gap in failed["ng_agent_observations"]["gaps"]]
    assert codes == ["compaction_model_call_join_failed"]


def attached(row: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    attach_trajectory_record(row, fields)
    return fields


def test_the_trajectory_owns_the_payloads(tmp_path: Path) -> None:
    CaptureStore(tmp_path).record("4-1", CALL)
    observed = AgentObservationBundle(
        source="mine",
        records=[
            AgentInvocation(invocation_id="i"),
            ToolCallObservation(invocation_id="i", tool_call_id="t", tool_name="add"),
        ],
        gaps=[ObservationGap(code="no_timing")],
    )
    fields = result(ng_agent_observations=observed.model_dump(mode="json"))
    merge_model_call_capture_into_record(fields, [tmp_path], include_payloads=True)

    attached(ROW, fields)

    trajectory = fields["ng_trajectory"]
    assert (trajectory["schema_version"], trajectory["task_id"]) == ("1.0", "4")
    assert trajectory["rollout_id"] == "4-1"
    call = trajectory["model_calls"][0]
    assert (call["model_call_id"], call["request"]) == ("call_1", {"input": "q"})
    assert call["duration_ms"] == 2.0
    assert call["token_stats"]["prompt_tokens"] == 3
    assert call["response_metadata"]["response_id"] == "resp_1"
    assert [one["invocation_id"] for one in trajectory["invocations"]] == ["i"]
    assert [one["tool_name"] for one in trajectory["tool_calls"]] == ["add"]
    assert [gap["code"] for gap in trajectory["gaps"]] == ["no_timing"]
    assert not {"request", "response"} & fields["ng_model_call_capture"]["calls"][0].keys()


@pytest.mark.parametrize(
    ("names", "task_id"),
    [
        ({}, "4"),
        ({"instance_id": "i"}, "i"),
        ({"problem_id": 7, "instance_id": "i"}, "7"),
        ({"task_id": "t", "problem_id": 7}, "t"),
    ],
)
def test_the_row_names_the_task(names: dict[str, Any], task_id: str) -> None:
    assert attached({**ROW, **names}, result())["ng_trajectory"]["task_id"] == task_id


def test_turns_of_another_identity_are_kept_and_labelled_again() -> None:
    own = {
        "task_id": "other",
        "rollout_id": "9-9",
        "turns": [{"turn_no": 1, "task_id": "other", "rollout_id": "9-9", "answer": "a"}],
    }

    trajectory = attached(ROW, result(ng_trajectory=own))["ng_trajectory"]

    turn = trajectory["turns"][0]
    assert (turn["task_id"], turn["rollout_id"], turn["answer"]) == ("4", "4-1", "a")
    codes = [gap["code"] for gap in trajectory["gaps"]]
    assert codes == ["producer_trajectory_identity_mismatch"]


def test_an_own_record_of_the_same_identity_has_no_gap() -> None:
    own = {"task_id": "4", "rollout_id": "4-1", "turns": [{"turn_no": 1}]}

    assert attached(ROW, result(ng_trajectory=own))["ng_trajectory"]["gaps"] == []


WRONG = {"task_id": "4", "rollout_id": "4-1", "turns": [{"turn_no": 0}]}


def test_a_failed_projection_is_a_gap_of_the_capture_and_leaves_payloads() -> None:
    capture = {"calls": [{"request": {"input": "q"}}]}

    fields = attached(ROW, result(ng_trajectory=WRONG, ng_model_call_capture=capture))

    gap = fields["ng_model_call_capture"]["gaps"][0]
    assert (gap["code"], gap["detail"]) == ("trajectory_projection_failed", "ValidationError")
    assert fields["ng_model_call_capture"]["calls"][0]["request"] == {"input": "q"}


def test_a_failed_projection_without_capture_is_a_gap_of_the_observations() -> None:
    observed = {"source": "mine", "records": [], "gaps": []}

    fields = attached(ROW, result(ng_trajectory=WRONG, ng_agent_observations=observed))

    codes = [gap["code"] for gap in fields["ng_agent_observations"]["gaps"]]
    assert codes == ["trajectory_projection_failed"]


def test_a_failed_projection_without_both_is_a_record_of_identity_and_gap() -> None:
    trajectory = attached(ROW, result(ng_trajectory=WRONG))["ng_trajectory"]

    assert (trajectory["task_id"], trajectory["rollout_id"]) == ("4", "4-1")
    assert trajectory["turns"] == []
    assert [gap["code"] for gap in trajectory["gaps"]] == ["trajectory_projection_failed"]


def test_a_row_without_identity_never_raises() -> None:
    trajectory = attached({}, {"reward": 1.0})["ng_trajectory"]

    assert [gap["code"] for gap in trajectory["gaps"]] == ["trajectory_projection_failed"]


def test_attachments_are_left_out_for_aggregation() -> None:
    row = result(ng_trajectory={}, ng_agent_observations={}, ng_model_call_capture={})

    assert without_attachments(row) == result()
