"""The ASGI layer: bytes pass unchanged, and each call of a rollout is recorded before it ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from palestra.observability import (
    CaptureLayer,
    CaptureStore,
    TokenStore,
    current_rollout_id,
    read_model_call_records,
)

App = Callable[[Any, Any, Any], Awaitable[None]]


def answering(
    *chunks: bytes, status: int = 200, kind: bytes = b"application/json", seen: Any = None
) -> App:
    """An app that answers with these chunks."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if seen is not None:
            seen.append((scope["path"], current_rollout_id()))
        await receive()
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number, chunk in enumerate(chunks):
            more = number + 1 < len(chunks)
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

    return app


def layer_over(app: App, store: CaptureStore | None, **settings: Any) -> CaptureLayer:
    return CaptureLayer(app, store=store, model_server_name="policy", **settings)


def post(
    layer: CaptureLayer,
    path: str,
    body: bytes = b'{"model": "tiny"}',
    *,
    on_chunk: Callable[[bytes], object] = len,
) -> tuple[int, bytes]:
    """The status and the bytes that the layer answers."""
    status: list[int] = []
    chunks: list[bytes] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])
        else:
            chunks.append(message["body"])
            on_chunk(message["body"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "headers": [],
    }
    asyncio.run(layer(scope, receive, send))
    return status[0], b"".join(chunks)


ANSWER = b'{"id": "resp_1", "status": "completed", "output": []}'
MODEL_PATHS = {
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
}


@pytest.mark.parametrize("dialect", MODEL_PATHS)
def test_a_call_below_the_prefix_is_recorded(tmp_path: Path, dialect: str) -> None:
    store = CaptureStore(tmp_path)
    seen: list[Any] = []
    layer = layer_over(answering(ANSWER, seen=seen), store)

    answer = post(layer, f"/ng-rollout/3-1-a2{MODEL_PATHS[dialect]}")

    assert answer == (200, ANSWER)
    assert seen == [(MODEL_PATHS[dialect], "3-1-a2")]
    exchange = store.read("3-1-a2")[0]
    assert exchange["dialect"] == dialect
    assert exchange["request"] == {"model": "tiny"}
    assert exchange["response"] == json.loads(ANSWER)
    assert exchange["model_ref"] == {"type": "responses_api_models", "name": "policy"}
    assert exchange["error_category"] is None
    assert exchange["status_code"] == 200
    assert exchange["completed_at"] >= exchange["started_at"]
    assert exchange["latency_ms"] >= 0
    assert "response_raw" not in exchange


@pytest.mark.parametrize("path", ["/v1/responses", "/ng-rollout/3-1/v1/models"])
def test_a_call_without_a_rollout_or_of_another_path_is_not_recorded(
    tmp_path: Path, path: str
) -> None:
    store = CaptureStore(tmp_path)

    assert post(layer_over(answering(ANSWER), store), path) == (200, ANSWER)

    assert list(tmp_path.iterdir()) == []


def test_the_prefix_is_taken_away_with_capture_off_too() -> None:
    seen: list[Any] = []

    post(layer_over(answering(ANSWER, seen=seen), None), "/ng-rollout/0-0/v1/responses")

    assert seen == [("/v1/responses", "0-0")]


@pytest.mark.parametrize(
    ("dialect", "chunks", "text"),
    [
        (
            "responses",
            (
                b'event: response.created\ndata: {"type":"response.created","response":{}}\n\n',
                b'data: {"type":"response.completed","response":{"id":"r","usage":null}}\n\n',
            ),
            {"id": "r", "usage": None},
        ),
        (
            "chat",
            (
                b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}\n\n',
                b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n',
                b"data: [DONE]\n\n",
            ),
            {
                "id": "c",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "ab"},
                        "finish_reason": "stop",
                    }
                ],
            },
        ),
        (
            "messages",
            (
                b'event: message_start\ndata: {"message":{"id":"m","content":[],"usage":{"input_tokens":2}}}\n\n',
                b'event: content_block_start\ndata: {"index":0,"content_block":{"type":"text","text":""}}\n\n',
                b'event: content_block_delta\ndata: {"index":0,"delta":{"type":"text_delta","text":"ab"}}\n\n',
                b'event: message_delta\ndata: {"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n',
                b"event: message_stop\ndata: {}\n\n",
            ),
            {
                "id": "m",
                "content": [{"type": "text", "text": "ab"}],
                "usage": {"input_tokens": 2, "output_tokens": 1},
                "stop_reason": "end_turn",
            },
        ),
    ],
)
def test_the_last_event_of_a_stream_waits_for_the_record(
    tmp_path: Path, dialect: str, chunks: tuple[bytes, ...], text: Any
) -> None:
    store = CaptureStore(tmp_path)
    recorded_at: list[int] = []
    layer = layer_over(answering(*chunks, b"", kind=b"text/event-stream; charset=utf-8"), store)

    answer = post(
        layer,
        f"/ng-rollout/0-0{MODEL_PATHS[dialect]}",
        on_chunk=lambda _: recorded_at.append(len(store.read("0-0"))),
    )

    assert answer == (200, b"".join(chunks))
    assert recorded_at == [0] * (len(chunks) - 1) + [1, 1]
    exchange = store.read("0-0")[0]
    assert exchange["response"] == text
    assert exchange["response_raw"] == b"".join(chunks).decode()
    assert exchange["latency_ttft_ms"] is not None
    assert exchange["error_category"] is None


@pytest.mark.parametrize(
    ("status", "body", "category"),
    [
        (429, b"{}", "rate_limit"),
        (401, b"{}", "auth"),
        (403, b"{}", "auth"),
        (404, b"{}", "not_found"),
        (408, b"{}", "timeout"),
        (504, b"{}", "timeout"),
        (422, b"{}", "client_error"),
        (500, b"{}", "upstream_error"),
        (200, b'{"status": "failed"}', "upstream_error"),
        (200, b"no json", "capture_parse_error"),
    ],
)
def test_a_failed_call_has_its_category(
    tmp_path: Path, status: int, body: bytes, category: str
) -> None:
    store = CaptureStore(tmp_path)

    post(layer_over(answering(body, status=status), store), "/ng-rollout/0-0/v1/responses")

    call = read_model_call_records(store, "0-0")[0]
    assert (call.error_category, call.status_code) == (category, status)


def test_a_stream_without_its_last_event_is_truncated(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    app = answering(b'data: {"type":"response.created"}\n\n', kind=b"text/event-stream")

    post(layer_over(app, store), "/ng-rollout/0-0/v1/responses")

    assert store.read("0-0")[0]["error_category"] == "stream_truncated"


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (RuntimeError("bug"), "exception"),
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "connection"),
        (asyncio.CancelledError(), "incomplete"),
    ],
)
def test_an_exception_is_recorded_and_passes(
    tmp_path: Path, error: BaseException, category: str
) -> None:
    store = CaptureStore(tmp_path)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise error

    with pytest.raises(type(error)):
        post(layer_over(app, store), "/ng-rollout/0-0/v1/responses")

    assert store.read("0-0")[0]["error_category"] == category


def test_a_record_that_cannot_be_written_marks_the_rollout_and_fails_no_call(
    tmp_path: Path,
) -> None:
    store = CaptureStore(tmp_path)
    store.path_for("0-0").mkdir()

    answer = post(layer_over(answering(ANSWER), store), "/ng-rollout/0-0/v1/responses")

    assert answer == (200, ANSWER)
    assert store.is_incomplete("0-0")


TOKENS = {
    "prompt_token_ids": [1, 2],
    "generation_token_ids": [3],
    "generation_log_probs": [-0.5],
}
WITH_TOKENS = json.dumps(
    {"model": "tiny", "output": [{"type": "message"}, {"type": "function_call", **TOKENS}]}
).encode()


def test_token_ids_are_recorded_for_paths_that_ask_for_them(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path)
    layer = layer_over(answering(WITH_TOKENS), None, token_store=tokens, token_capture_enabled=True)

    post(layer, "/ng-rollout/0-0/training-token-capture/v1/responses")
    post(layer, "/ng-rollout/0-1/v1/responses")

    record = tokens.read("0-0")[0]
    assert {name: record[name] for name in TOKENS} == TOKENS
    assert (record["schema_version"], record["rollout_id"], record["model"]) == (1, "0-0", "tiny")
    assert (record["token_item_index"], record["routed_experts"]) == (1, None)
    assert len(record["output_items"]) == 2
    assert {"model_call_id", "created_at"} <= record.keys()
    assert tokens.read("0-1") == []


def test_token_ids_are_not_recorded_unless_enabled(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path)

    post(
        layer_over(answering(WITH_TOKENS), None, token_store=tokens),
        "/ng-rollout/0-0/training-token-capture/v1/responses",
    )

    assert tokens.read("0-0") == []
