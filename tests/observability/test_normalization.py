"""One record for a call of any dialect."""

from pathlib import Path
from typing import Any

import pytest

from palestra.observability import (
    CaptureStore,
    ModelCallRecord,
    aggregate_model_call_metrics,
    read_model_call_records,
    records_of,
)


def record(dialect: str, response: Any, **fields: Any) -> ModelCallRecord:
    exchange = {"dialect": dialect, "response": response, **fields}
    return records_of([(0, exchange)])[0]


RESPONSES = {
    "id": "resp_1",
    "model": "tiny",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
    ],
    "usage": {
        "input_tokens": 10,
        "output_tokens": 4,
        "total_tokens": 14,
        "input_tokens_details": {"cached_tokens": 6},
        "output_tokens_details": {"reasoning_tokens": 3},
    },
}
CHAT = {
    "id": "chat_1",
    "model": "tiny",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "reasoning_content": "hm",
                "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}
MESSAGES = {
    "id": "msg_1",
    "model": "tiny",
    "stop_reason": "tool_use",
    "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    ],
    "usage": {
        "input_tokens": 3,
        "output_tokens": 4,
        "cache_read_input_tokens": 6,
        "cache_creation_input_tokens": 1,
    },
}


@pytest.mark.parametrize(
    ("dialect", "response", "finish_reason"),
    [
        ("responses", RESPONSES, "max_output_tokens"),
        ("chat", CHAT, "tool_calls"),
        ("messages", MESSAGES, "tool_use"),
    ],
)
def test_the_three_dialects_have_one_form(
    dialect: str, response: dict[str, Any], finish_reason: str
) -> None:
    call = record(dialect, response)

    assert (call.response_id, call.model, call.dialect) == (response["id"], "tiny", dialect)
    assert (call.tokens_in, call.tokens_out, call.tokens_total) == (10, 4, 14)
    assert (call.cached_tokens, call.cache_hit) == (6, True)
    assert call.finish_reason == finish_reason
    assert call.reasoning_content == "hm"
    tool_call = call.tool_calls[0]
    assert (tool_call.call_id, tool_call.name, tool_call.arguments) == ("c1", "add", {"a": 1})


def test_what_a_dialect_alone_states_is_kept() -> None:
    assert record("responses", RESPONSES).response_status == "incomplete"
    assert record("responses", RESPONSES).tokens_reasoning == 3
    assert record("messages", MESSAGES).cache_creation_tokens == 1
    assert record("messages", MESSAGES).tokens_reasoning is None


@pytest.mark.parametrize("dialect", ["responses", "chat", "messages"])
def test_unknown_counts_are_none_and_never_0(dialect: str) -> None:
    call = record(dialect, {"id": "x", "usage": {}})

    assert call.tokens_in is call.tokens_out is call.tokens_total is None
    assert call.cached_tokens is call.cache_hit is call.tokens_reasoning is None


def test_a_boolean_is_no_count() -> None:
    call = record("chat", {"usage": {"prompt_tokens": True, "completion_tokens": 2}})

    assert (call.tokens_in, call.tokens_out, call.tokens_total) == (None, 2, None)


@pytest.mark.parametrize("arguments", ["{not json", "[1]", "plain"])
def test_unreadable_arguments_are_kept_as_text(arguments: str) -> None:
    item = {"type": "function_call", "name": "add", "arguments": arguments}

    call = record("responses", {"output": [item]})

    assert call.tool_calls[0].arguments == {"_raw": arguments}
    assert call.tool_calls[0]["name"] == "add"


def test_a_call_without_an_answer_has_its_failure_and_the_asked_model() -> None:
    call = record(
        "chat", None, request={"model": "asked"}, status_code=429, error_category="rate_limit"
    )

    assert (call.model, call.status_code, call.error_category) == ("asked", 429, "rate_limit")
    assert call.tool_calls == []


def test_read_model_call_records_gives_each_call_its_position(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    for name in ("b", "a"):
        store.record("0-0", {"dialect": "chat", "model_call_id": name, "response": CHAT})

    records = read_model_call_records(store, "0-0")

    assert [(call.model_call_id, call.call_index) for call in records] == [("b", 0), ("a", 1)]


def test_aggregate_model_call_metrics_sums_what_calls_report(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.record("0-0", {"dialect": "chat", "response": CHAT, "latency_ms": 5.0})
    store.record("0-0", {"dialect": "messages", "response": MESSAGES})

    assert aggregate_model_call_metrics(store, "0-0") == {
        "tokens_in": 20,
        "tokens_out": 8,
        "tokens_reasoning": 3,
        "tokens_total": 28,
        "cached_tokens": 12,
        "latency_total_ms": 5.0,
        "num_calls": 2,
    }
    assert aggregate_model_call_metrics(store, "none") == {
        "tokens_in": None,
        "tokens_out": None,
        "tokens_reasoning": None,
        "tokens_total": None,
        "cached_tokens": None,
        "latency_total_ms": None,
        "num_calls": 0,
    }
