"""Turn lines of a capture file into `ModelCallRecord`s, one form for the three dialects."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
from pydantic import ValidationError

from palestra.observability.records import CapturedToolCall, ModelCallRecord, ModelRef
from palestra.observability.store import CaptureStore
from palestra.schema import JsonDict, JsonObject

SUMS: Final = (
    "tokens_in",
    "tokens_out",
    "tokens_reasoning",
    "tokens_total",
    "cached_tokens",
    "latency_total_ms",
)
"""The metrics of a rollout that are sums over its calls."""


def read_model_call_records(store: CaptureStore, rollout_id: str) -> list[ModelCallRecord]:
    """Return the captured calls of a rollout in file order; `call_index` is the position.

    Raises ValueError: a line is damaged.
    """
    return records_of(enumerate(store.read(rollout_id)))


def aggregate_model_call_metrics(store: CaptureStore, rollout_id: str) -> JsonDict:
    """Return the sums over a rollout's calls, and their number; see `metrics_of`."""
    return metrics_of(read_model_call_records(store, rollout_id))


def records_of(exchanges: Iterable[tuple[int, JsonObject]]) -> list[ModelCallRecord]:
    """Return the records of lines, each given with its index in the file."""
    return [record_of(exchange, index) for index, exchange in exchanges]


def metrics_of(records: Sequence[ModelCallRecord]) -> JsonDict:
    """Return the sums over the calls that state a value, None when no call does, and `num_calls`."""
    metrics: JsonDict = {}
    for name in SUMS:
        values = [value for record in records if (value := getattr(record, name)) is not None]
        metrics[name] = sum(values) if values else None
    return {**metrics, "num_calls": len(records)}


def record_of(exchange: JsonObject, index: int) -> ModelCallRecord:
    """Return the record of one line of a capture file."""
    request, response = _mapping(exchange.get("request")), _mapping(exchange.get("response"))
    dialect = exchange.get("dialect")
    facts = _FACTS.get(str(dialect), _no_facts)(response)
    model = response.get("model") or request.get("model")
    return ModelCallRecord(
        model_call_id=_text(exchange.get("model_call_id")),
        response_id=_text(response.get("id")),
        call_index=index,
        model_ref=_model_ref(exchange.get("model_ref")),
        model=_text(model),
        dialect=_text(dialect),
        status_code=_count(exchange.get("status_code")),
        started_at=_number(exchange.get("started_at")),
        completed_at=_number(exchange.get("completed_at")),
        error_category=_text(exchange.get("error_category")),
        latency_total_ms=_number(exchange.get("latency_ms")),
        latency_ttft_ms=_number(exchange.get("latency_ttft_ms")),
        request=exchange.get("request"),
        response=exchange.get("response"),
        request_raw=_text(exchange.get("request_raw")),
        response_raw=_text(exchange.get("response_raw")),
        **facts,
    )


def _responses_facts(response: JsonObject) -> JsonDict:
    items = _mappings(response.get("output"))
    calls = [
        _tool_call(item.get("call_id"), item.get("name"), item.get("arguments"))
        for item in items
        if item.get("type") == "function_call"
    ]
    thoughts = [
        _text(part.get("text"))
        for item in items
        if item.get("type") == "reasoning"
        for part in (*_mappings(item.get("summary")), *_mappings(item.get("content")))
    ]
    usage = _mapping(response.get("usage"))
    return {
        "response_status": _text(response.get("status")),
        "finish_reason": _text(_mapping(response.get("incomplete_details")).get("reason")),
        "tool_calls": calls,
        "reasoning_content": _joined(thoughts),
        **_usage(
            tokens_in=_count(usage.get("input_tokens")),
            tokens_out=_count(usage.get("output_tokens")),
            total=_count(usage.get("total_tokens")),
            cached=_detail(usage, "input_tokens_details", "cached_tokens"),
            reasoning=_detail(usage, "output_tokens_details", "reasoning_tokens"),
        ),
    }


def _chat_facts(response: JsonObject) -> JsonDict:
    choice = next(iter(_mappings(response.get("choices"))), {})
    message = _mapping(choice.get("message"))
    functions = [
        (call, _mapping(call.get("function"))) for call in _mappings(message.get("tool_calls"))
    ]
    usage = _mapping(response.get("usage"))
    return {
        "finish_reason": _text(choice.get("finish_reason")),
        "tool_calls": [
            _tool_call(call.get("id"), function.get("name"), function.get("arguments"))
            for call, function in functions
        ],
        "reasoning_content": _text(message.get("reasoning_content"))
        or _text(message.get("reasoning")),
        **_usage(
            tokens_in=_count(usage.get("prompt_tokens")),
            tokens_out=_count(usage.get("completion_tokens")),
            total=_count(usage.get("total_tokens")),
            cached=_detail(usage, "prompt_tokens_details", "cached_tokens"),
            reasoning=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
        ),
    }


def _messages_facts(response: JsonObject) -> JsonDict:
    blocks = _mappings(response.get("content"))
    usage = _mapping(response.get("usage"))
    cached = _count(usage.get("cache_read_input_tokens"))
    created = _count(usage.get("cache_creation_input_tokens"))
    tokens_in = _count(usage.get("input_tokens"))
    if tokens_in is not None:
        tokens_in += (cached or 0) + (created or 0)
    return {
        "finish_reason": _text(response.get("stop_reason")),
        "tool_calls": [
            _tool_call(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if block.get("type") == "tool_use"
        ],
        "reasoning_content": _joined(
            [_text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
        ),
        "cache_creation_tokens": created,
        **_usage(
            tokens_in=tokens_in,
            tokens_out=_count(usage.get("output_tokens")),
            total=None,
            cached=cached,
            reasoning=None,
        ),
    }


def _no_facts(_response: JsonObject) -> JsonDict:
    return {}


_FACTS: Final[Mapping[str, Callable[[JsonObject], JsonDict]]] = {
    "responses": _responses_facts,
    "chat": _chat_facts,
    "messages": _messages_facts,
}


def _usage(
    *,
    tokens_in: int | None,
    tokens_out: int | None,
    total: int | None,
    cached: int | None,
    reasoning: int | None,
) -> JsonDict:
    if total is None and tokens_in is not None and tokens_out is not None:
        total = tokens_in + tokens_out
    return {
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "tokens_reasoning": reasoning,
        "tokens_total": total,
        "cached_tokens": cached,
        "cache_hit": None if cached is None else cached > 0,
    }


def _detail(usage: JsonObject, group: str, name: str) -> int | None:
    """Return a count of a usage group; some endpoints state it beside the group."""
    count = _count(_mapping(usage.get(group)).get(name))
    return _count(usage.get(name)) if count is None else count


def _tool_call(call_id: Any, name: Any, arguments: Any) -> CapturedToolCall:
    return CapturedToolCall(
        call_id=_text(call_id), name=_text(name), arguments=_arguments_of(arguments)
    )


def _arguments_of(arguments: Any) -> JsonDict:
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if arguments is None or arguments == "":
        return {}
    try:
        value = orjson.loads(arguments)
    except (orjson.JSONDecodeError, TypeError):
        value = None
    return value if isinstance(value, dict) else {"_raw": str(arguments)}


def _model_ref(value: Any) -> ModelRef | None:
    try:
        return None if value is None else ModelRef.model_validate(value)
    except ValidationError:
        return None


def _mapping(value: Any) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _joined(texts: list[str | None]) -> str | None:
    return "\n\n".join(text for text in texts if text) or None


def _count(value: Any) -> int | None:
    """Return a number that counts something; None for any other value, a boolean too."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None
