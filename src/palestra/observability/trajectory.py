"""The trajectory record of a rollout: what its agent and its model servers observed, in one place.

It owns the payloads: requests and responses are moved here from `ng_model_call_capture`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import Field

from palestra.observability.observations import (
    AgentInvocation,
    AgentObservationBundle,
    ModelCallRef,
    ObservationGap,
    StrictRecord,
    ToolCallObservation,
)
from palestra.observability.records import PAYLOADS, ModelCallRecord
from palestra.observability.rollout_ids import rollout_id_of
from palestra.schema import (
    AGENT_OBSERVATIONS,
    MODEL_CALL_CAPTURE,
    TASK_INDEX,
    TRAJECTORY,
    JsonDict,
    JsonObject,
)

TASK_ID_FIELDS: Final = ("task_id", "problem_id", "instance_id")
"""The fields of a row that name its task, the first that is there."""

PROJECTION_FAILED: Final = "trajectory_projection_failed"
IDENTITY_MISMATCH: Final = "producer_trajectory_identity_mismatch"


class TrajectoryTurn(StrictRecord):
    """One turn of an agent. `turn_no` counts from 1."""

    invocation_id: str | None = None
    task_id: str | None = None
    rollout_id: str | None = None
    turn_no: int = Field(ge=1)
    timestamp: float | str | None = None
    question: Any = None
    answer: Any = None
    reasoning_content: str | None = None
    resolved: bool | None = None
    step_count: int | None = None
    model_calls: list[ModelCallRef] = Field(default_factory=list)


class TokenStats(StrictRecord):
    """The token counts of one model call; None is unknown."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None


class TrajectoryModelCall(StrictRecord):
    """One model call with its request and response."""

    model_call_id: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    duration_ms: float | None = None
    request: Any = None
    response: Any = None
    response_metadata: JsonDict = Field(default_factory=dict)
    token_stats: TokenStats | None = None


class TrajectoryToolCall(ToolCallObservation):
    """One tool call with its output."""

    output: Any = None


class TrajectoryRecord(StrictRecord):
    """All that is known of how one rollout went."""

    schema_version: Literal["1.0"] = "1.0"
    task_id: str
    rollout_id: str
    invocations: list[AgentInvocation] = Field(default_factory=list)
    turns: list[TrajectoryTurn] = Field(default_factory=list)
    model_calls: list[TrajectoryModelCall] = Field(default_factory=list)
    tool_calls: list[TrajectoryToolCall] = Field(default_factory=list)
    gaps: list[ObservationGap] = Field(default_factory=list)


Build = Callable[[JsonObject, JsonObject], TrajectoryRecord]
Item = TypeVar("Item", bound=StrictRecord)


def build_trajectory_record(row: JsonObject, result: JsonObject) -> TrajectoryRecord:
    """Return the merged record of a rollout, from what `result` holds of the agent's own record,
    its observations and the captured calls; each may be absent.

    Raises ValueError: one of them is not valid, or the row names no rollout.
    """
    task_id, rollout_id = _identity(row)
    if task_id is None or rollout_id is None:
        raise ValueError("the row names no rollout")
    record = _own_record(result.get(TRAJECTORY), task_id, rollout_id)
    if (observed := result.get(AGENT_OBSERVATIONS)) is not None:
        _add_observations(record, AgentObservationBundle.model_validate(observed))
    if (captured := result.get(MODEL_CALL_CAPTURE)) is not None:
        _add_capture(record, captured)
    return record


def attach_trajectory_record(
    row: JsonObject,
    result: JsonDict,
    *,
    build: Build = build_trajectory_record,
    strip: Callable[[JsonDict], None] | None = None,
) -> None:
    """Put the merged record into `result`, and take the payloads out of its captured calls.

    Never raises. When the record cannot be built, the payloads stay where they are and a gap says
    so: in the captured calls, else in the observations, else in a record without content.
    """
    try:
        attachment = build(row, result).model_dump(mode="json")
    except Exception as error:
        gap = ObservationGap(code=PROJECTION_FAILED, detail=type(error).__name__)
        _add_gap(row, result, gap.model_dump(mode="json"))
        return
    result[TRAJECTORY] = attachment
    (strip or strip_capture_payloads)(result)


def strip_capture_payloads(result: JsonDict) -> None:
    """Remove requests and responses from the captured calls of a result row."""
    capture = result.get(MODEL_CALL_CAPTURE)
    calls = capture.get("calls") if isinstance(capture, Mapping) else None
    for call in calls if isinstance(calls, list) else ():
        for name in PAYLOADS:
            call.pop(name, None)


def _identity(row: JsonObject) -> tuple[str | None, str | None]:
    """Return the ids of the task and of the rollout; None for what the row does not name."""
    names = (row.get(name) for name in (*TASK_ID_FIELDS, TASK_INDEX))
    task_id = next((str(name) for name in names if name is not None), None)
    return task_id, rollout_id_of(row)


def _own_record(reported: Any, task_id: str, rollout_id: str) -> TrajectoryRecord:
    """Return the agent's record, or an empty one. With another identity, its turns get ours."""
    identity = {"task_id": task_id, "rollout_id": rollout_id}
    if reported is None:
        return TrajectoryRecord(**identity)
    record = TrajectoryRecord.model_validate(reported)
    identities = {
        (record.task_id, record.rollout_id),
        *((turn.task_id or task_id, turn.rollout_id or rollout_id) for turn in record.turns),
    }
    if identities != {(task_id, rollout_id)}:
        record.gaps.append(ObservationGap(code=IDENTITY_MISMATCH))
    record.task_id, record.rollout_id = task_id, rollout_id
    for turn in record.turns:
        turn.task_id, turn.rollout_id = task_id, rollout_id
    return record


def _add_observations(record: TrajectoryRecord, bundle: AgentObservationBundle) -> None:
    invocations = (item for item in bundle.records if isinstance(item, AgentInvocation))
    calls = (
        TrajectoryToolCall(**item.model_dump())
        for item in bundle.records
        if isinstance(item, ToolCallObservation)
    )
    _add_new(record.invocations, invocations, key=lambda item: item.invocation_id)
    _add_new(record.tool_calls, calls, key=_tool_call_key)
    _add_new(record.gaps, bundle.gaps, key=_gap_key)


def _add_capture(record: TrajectoryRecord, captured: JsonObject) -> None:
    calls = [ModelCallRecord.model_validate(call) for call in captured.get("calls") or ()]
    ids = {call.model_call_id for call in calls if call.model_call_id}
    # A captured call has what was really sent.
    own_calls = [call for call in record.model_calls if call.model_call_id not in ids]
    record.model_calls = [*map(_trajectory_call, calls), *own_calls]
    gaps = map(ObservationGap.model_validate, captured.get("gaps") or ())
    _add_new(record.gaps, gaps, key=_gap_key)


def _trajectory_call(call: ModelCallRecord) -> TrajectoryModelCall:
    return TrajectoryModelCall(
        model_call_id=call.model_call_id,
        started_at=call.started_at,
        completed_at=call.completed_at,
        duration_ms=call.latency_total_ms,
        request=call.request_raw if call.request is None else call.request,
        response=call.response_raw if call.response is None else call.response,
        response_metadata=call.model_dump(mode="json", include=_METADATA, exclude_none=True),
        token_stats=TokenStats(
            prompt_tokens=call.tokens_in,
            completion_tokens=call.tokens_out,
            reasoning_tokens=call.tokens_reasoning,
            total_tokens=call.tokens_total,
            cached_tokens=call.cached_tokens,
        ),
    )


_METADATA: Final = {
    "response_id",
    "call_index",
    "model_ref",
    "model",
    "dialect",
    "status_code",
    "response_status",
    "finish_reason",
    "error_category",
    "latency_ttft_ms",
}


def _add_new(items: list[Item], additions: Iterable[Item], *, key: Callable[[Item], Any]) -> None:
    """Append the additions that are not there yet. One without a key always is new."""
    keys = {key(item) for item in items}
    for item in additions:
        identity = key(item)
        if identity is None or identity not in keys:
            items.append(item)
            keys.add(identity)


def _tool_call_key(call: ToolCallObservation) -> Any:
    return None if call.tool_call_id is None else (call.invocation_id, call.tool_call_id)


def _gap_key(gap: ObservationGap) -> Any:
    return gap.code, gap.invocation_id, gap.detail


def _add_gap(row: JsonObject, result: JsonDict, gap: JsonDict) -> None:
    for name in (MODEL_CALL_CAPTURE, AGENT_OBSERVATIONS):
        attachment = result.get(name)
        if isinstance(attachment, dict):
            gaps = attachment.get("gaps")
            attachment["gaps"] = [*(gaps if isinstance(gaps, list) else ()), gap]
            return
    try:
        task_id, rollout_id = _identity(row)
    except Exception:
        task_id = rollout_id = None
    record = TrajectoryRecord(
        task_id=task_id or "", rollout_id=rollout_id or "", gaps=[ObservationGap(**gap)]
    )
    result[TRAJECTORY] = record.model_dump(mode="json")
