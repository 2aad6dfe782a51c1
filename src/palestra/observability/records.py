"""One captured model call in one form, whichever of the three dialects it was made in.

A value that the call does not state is None, never 0.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from palestra.schema import JsonDict


class ModelRef(BaseModel):
    """The model server that answered a call."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    type: str = "responses_api_models"
    name: str


class CapturedToolCall(BaseModel):
    """A tool call that the model made. Its fields can also be read as items."""

    call_id: str | None = None
    name: str | None = None
    arguments: JsonDict = Field(default_factory=dict)
    """The arguments; `{"_raw": text}` when the text is not a JSON object."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


PAYLOADS = ("request", "response", "request_raw", "response_raw")
"""The fields of a call that hold what was sent, which may be large."""


class ModelCallRecord(BaseModel):
    """One captured model call. Times are Unix seconds, latencies milliseconds."""

    model_config = ConfigDict(protected_namespaces=())

    model_call_id: str | None = None
    response_id: str | None = None
    call_index: int | None = None
    """The position of the call in the capture file, from 0. It is no order of causes: calls may
    run at the same time."""
    model_ref: ModelRef | None = None
    model: str | None = None
    """The model's name in the answer, else in the request."""
    dialect: str | None = None
    """`responses`, `chat` or `messages`."""
    status_code: int | None = None
    response_status: str | None = None
    """The `status` of a response: completed, incomplete or failed."""
    finish_reason: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    tokens_in: int | None = None
    """All input tokens, those read from the cache or written to it included."""
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_total: int | None = None
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cache_hit: bool | None = None
    tool_calls: list[CapturedToolCall] = Field(default_factory=list)
    reasoning_content: str | None = None
    error_category: str | None = None
    latency_total_ms: float | None = None
    latency_ttft_ms: float | None = None
    """The time until the first bytes of a streamed answer."""
    request: Any = None
    response: Any = None
    request_raw: str | None = None
    response_raw: str | None = None

    def without_payloads(self) -> JsonDict:
        """Return the record as JSON, without what was sent."""
        return self.model_dump(mode="json", exclude=set(PAYLOADS))
