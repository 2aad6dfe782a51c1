"""Record model calls: what was asked and answered, when, and why it failed.

A recorder belongs to one model server. Files are written in threads of its own, so that the event
loop never waits for the disk. A call is never failed by its recording: what cannot be written marks
the rollout's capture as incomplete.
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, final

import orjson
from anyio import CapacityLimiter, to_thread

from palestra.config import ConfigTree, capture_settings
from palestra.observability.event_streams import events_of, joined_answer
from palestra.observability.failures import (
    ErrorCategory,
    category_of_answer,
    category_of_exception,
    category_of_status,
)
from palestra.observability.rollout_ids import current_call_wants_tokens, current_rollout_id
from palestra.observability.store import CaptureStore, TokenStore
from palestra.observability.token_records import token_record
from palestra.schema import JsonDict
from palestra.transport import new_id

logger = logging.getLogger("palestra.observability")

DIALECTS: Final = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
"""The paths of model calls, and the dialect of each."""

WRITERS: Final = 4


class TokenSink(Protocol):
    """Receives the token ids of calls; a `TokenStore` is one."""

    def record(self, rollout_id: str, exchange: JsonDict, /) -> None:
        """Store one record. It runs in a thread and may block."""


@dataclass(slots=True)
class OpenCall:
    """A model call that is not answered yet."""

    rollout_id: str
    dialect: str
    wants_tokens: bool
    model_call_id: str = field(default_factory=lambda: new_id("call_"))
    started_at: float = field(default_factory=time.time)
    started: float = field(default_factory=time.perf_counter)
    ttft_ms: float | None = None

    def first_bytes(self) -> None:
        """Note that the first bytes of a streamed answer have come."""
        if self.ttft_ms is None:
            self.ttft_ms = self.elapsed_ms()

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the start."""
        return (time.perf_counter() - self.started) * 1000


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """How a call ended. `streamed`: `raw` is an event stream. `failure`: the exception that ended
    it. `cut`: the answer ended before it was whole.
    """

    status: int | None = None
    raw: bytes = b""
    streamed: bool = False
    failure: BaseException | None = None
    cut: bool = False


@final
class CallRecorder:
    """Records the calls of the model server `server`.

    `store`: where calls go; None: they are not recorded. `tokens`: where token ids go; None: they
    are not recorded.
    """

    def __init__(
        self, server: str, store: CaptureStore | None, tokens: TokenSink | None = None
    ) -> None:
        self._model_ref = {"type": "responses_api_models", "name": server}
        self._store = store
        self._tokens = tokens
        # Its own threads: verifiers that fill the shared pool must not keep a model's answer.
        self._writers = CapacityLimiter(WRITERS)

    def begin(self, path: str) -> OpenCall | None:
        """Return the call of `path` that begins now; None when nothing of it is recorded: it is no
        model call, or it belongs to no rollout.
        """
        dialect = DIALECTS.get(path)
        rollout_id = None if dialect is None else current_rollout_id()
        if dialect is None or rollout_id is None:
            return None
        wants_tokens = self._tokens is not None and current_call_wants_tokens()
        if self._store is None and not wants_tokens:
            return None
        return OpenCall(rollout_id, dialect, wants_tokens)

    async def end(self, call: OpenCall, request: bytes, answer: CallAnswer) -> None:
        """Write the record of a call. Return when it is on the disk, or has failed to be."""
        completed_at, latency_ms = time.time(), call.elapsed_ms()
        # It is not abandoned: a caller that leaves now must not take the record with it.
        await to_thread.run_sync(
            self._write, call, request, answer, completed_at, latency_ms, limiter=self._writers
        )

    def _write(
        self,
        call: OpenCall,
        request: bytes,
        answer: CallAnswer,
        completed_at: float,
        latency_ms: float,
    ) -> None:
        try:
            exchange = {
                "model_call_id": call.model_call_id,
                "dialect": call.dialect,
                "model_ref": self._model_ref,
                "started_at": call.started_at,
                "completed_at": completed_at,
                "latency_ms": latency_ms,
                "latency_ttft_ms": call.ttft_ms,
                "status_code": answer.status,
                **_payloads(call.dialect, request, answer),
            }
            if self._store is not None:
                self._store.record(call.rollout_id, exchange)
            if self._tokens is not None and call.wants_tokens:
                record = token_record(call.rollout_id, exchange)
                if record is not None:
                    self._tokens.record(call.rollout_id, record)
        except Exception as error:
            logger.warning("a model call of rollout %s is not captured: %s", call.rollout_id, error)
            self._mark_incomplete(call.rollout_id)

    def _mark_incomplete(self, rollout_id: str) -> None:
        if self._store is None:
            return
        try:
            self._store.mark_incomplete(rollout_id)
        except (OSError, ValueError) as error:
            logger.warning("nor is it marked as incomplete: %s", error)


def recorder_for(tree: ConfigTree, server: str) -> CallRecorder | None:
    """Return the recorder of the model server `server` of a fleet; None when the configuration
    `tree` asks for no capture. Raises ConfigError: its settings of capture are wrong.
    """
    settings = capture_settings(tree)
    if settings is None:
        return None
    return CallRecorder(
        server,
        CaptureStore(settings.folder) if settings.calls else None,
        TokenStore(settings.folder) if settings.token_ids else None,
    )


def _payloads(dialect: str, request: bytes, answer: CallAnswer) -> JsonDict:
    """Return the request, the response, what of them is not JSON as text, and the error category."""
    request_body, response = _json(request), None
    fields: JsonDict = {}
    if request_body is None:
        fields["request_raw"] = _text(request)
    has_end = True
    if answer.streamed:
        events = events_of(answer.raw)
        has_end = any(event.ends(dialect) for event in events)
        response = joined_answer(dialect, events)
        fields["response_raw"] = _text(answer.raw)
    elif answer.raw:
        response = _json(answer.raw)
        if response is None:
            fields["response_raw"] = _text(answer.raw)
    category = _category(answer, response, stream_ended=has_end)
    return {"error_category": category, "request": request_body, "response": response, **fields}


def _category(answer: CallAnswer, response: Any, *, stream_ended: bool) -> ErrorCategory | None:
    if answer.failure is not None:
        return category_of_exception(answer.failure)
    by_status = None if answer.status is None else category_of_status(answer.status)
    if by_status is not None:
        return by_status
    if not stream_ended:
        return ErrorCategory.STREAM_TRUNCATED
    if answer.cut or answer.status is None:
        return ErrorCategory.INCOMPLETE
    if not isinstance(response, dict):
        return ErrorCategory.CAPTURE_PARSE_ERROR
    return category_of_answer(response)


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
