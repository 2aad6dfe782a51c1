"""The records in which an agent reports what happened in a rollout.

Unknown fields are errors, also when a field is assigned later. Times are Unix seconds, `duration_ms`
is in milliseconds. What an agent cannot observe it leaves out, or names in an `ObservationGap`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from palestra.observability.records import ModelCallRecord, ModelRef


class StrictRecord(BaseModel):
    """The base of all records."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, protected_namespaces=())


class ObservationGap(StrictRecord):
    """Something that could not be observed. `code` names what, `detail` why."""

    code: str
    invocation_id: str | None = None
    detail: str | None = None


class ModelCallRef(StrictRecord):
    """A reference to a captured model call: by its id, or by model server and response id."""

    model_call_id: str | None = None
    model_ref: ModelRef | None = None
    response_id: str | None = None

    @model_validator(mode="after")
    def _names_a_call(self) -> Self:
        if not self.model_call_id and (self.model_ref is None or not self.response_id):
            raise ValueError("a model call needs model_call_id, or model_ref and response_id")
        return self


class AgentInvocation(StrictRecord):
    """One run of an agent, or of another agent that it started."""

    kind: Literal["agent_invocation"] = "agent_invocation"
    invocation_id: str
    parent_invocation_id: str | None = None
    spawned_by_tool_call_id: str | None = None
    status: str | None = None
    duration_ms: float | None = None
    error_type: str | None = None
    model_calls: list[ModelCallRef] = Field(default_factory=list)
    conversation: Any = None
    """The messages of the invocation, in the agent's own form."""


class ToolCallObservation(StrictRecord):
    """One tool call. `timing_source`: who measured its times."""

    kind: Literal["tool_call"] = "tool_call"
    invocation_id: str | None = None
    tool_call_id: str | None = None
    sandbox_id: str | None = None
    tool_name: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    duration_ms: float | None = None
    timing_source: Literal["executor", "artifact", "harness"] | None = None
    status: str | None = None
    error_type: str | None = None


class ContextCompactionObservation(StrictRecord):
    """One compaction: the agent made its context shorter."""

    kind: Literal["context_compaction"] = "context_compaction"
    invocation_id: str | None = None
    observed_at: float | str | None = None
    trigger: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    outcome: str | None = None
    summary: str | None = None
    first_kept_item_id: str | None = None
    before_model_call: ModelCallRef | None = None
    """The last call before the compaction."""
    model_calls: list[ModelCallRef] = Field(default_factory=list)
    """The calls that made the summary."""
    after_model_call: ModelCallRef | None = None
    """The first call after the compaction."""


class SandboxObservation(StrictRecord):
    """One sandbox of the rollout, and what it used."""

    kind: Literal["sandbox"] = "sandbox"
    role: str | None = None
    provider: str | None = None
    sandbox_id: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    wall_time_s: float | None = None
    cpu_time_s: float | None = None
    peak_memory_mib: float | None = None
    resource_usage_source: str | None = None
    error_type: str | None = None


AgentObservation = Annotated[
    AgentInvocation | ToolCallObservation | ContextCompactionObservation | SandboxObservation,
    Field(discriminator="kind"),
]


class AgentObservationBundle(StrictRecord):
    """All that an agent observed in one rollout. `source`: the agent's name."""

    source: str
    records: list[AgentObservation] = Field(default_factory=list)
    gaps: list[ObservationGap] = Field(default_factory=list)


@dataclass(frozen=True)
class AgentEpisode:
    """What an agent's loop returns: the response, and the observations beside it."""

    response: Any
    observations: AgentObservationBundle | None = None


def join_model_call_observations(
    bundle: AgentObservationBundle, calls: Sequence[ModelCallRecord]
) -> AgentObservationBundle:
    """Return a copy of `bundle` in which references by response id also have the captured call's
    id.

    A reference that fits no captured call, or several, is unchanged.
    """
    ids: dict[tuple[str, str, str], list[str]] = {}
    for call in calls:
        if call.model_call_id and call.model_ref is not None and call.response_id:
            key = (call.model_ref.type, call.model_ref.name, call.response_id)
            ids.setdefault(key, []).append(call.model_call_id)
    joined = bundle.model_copy(deep=True)
    for record in joined.records:
        for ref in _refs_of(record):
            if ref.model_call_id or ref.model_ref is None or not ref.response_id:
                continue
            matches = ids.get((ref.model_ref.type, ref.model_ref.name, ref.response_id), [])
            if len(matches) == 1:
                ref.model_call_id = matches[0]
    return joined


def _refs_of(record: StrictRecord) -> list[ModelCallRef]:
    if isinstance(record, AgentInvocation):
        return record.model_calls
    if isinstance(record, ContextCompactionObservation):
        around = (record.before_model_call, record.after_model_call)
        return [*record.model_calls, *(ref for ref in around if ref is not None)]
    return []
