"""A real HTTP server on loopback that behaves like a provider of one dialect: Responses, Chat
Completions or Anthropic's Messages. There is no model behind it.

It is as strict as the providers: it wants the key in the dialect's header and the required fields,
and refuses what the dialect does not have. It calls the first tool once, then it says "sunny".
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "key-of-the-dialect-server"
MODEL = "weather-1"
SIGNATURE = "EqQBCkYIBBgCKkAsigned"

_MESSAGES_FIELDS = {
    *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "temperature", "top_p"),
    *("top_k", "stop_sequences", "metadata", "output_config", "thinking", "service_tier"),
}


class Refused(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


@dataclass
class DialectServer:
    """What was asked of the server, and where it is."""

    dialect: str
    url: str = ""
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    models: tuple[str, ...] = (MODEL,)
    refusal: Refused | None = None
    """The answer to every request for a turn."""

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the answer. Raises Refused."""
        keys = [headers.get("x-api-key")]
        if self.dialect != "messages":  # Azure has a header of its own
            keys = [headers.get("api-key"), headers.get("authorization", "")[len("Bearer ") :]]
        if KEY not in keys:
            raise Refused(401, "authentication_error", "invalid x-api-key")
        if path.endswith("/models"):
            return {"data": [{"id": name} for name in self.models], "has_more": False}
        self.requests.append((path, headers, body))
        if self.refusal is not None:
            raise self.refusal
        return {"messages": _message, "chat": _completion, "responses": _response}[self.dialect](
            path, headers, body
        )


def _message(path: str, headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    _check_message_request(path, headers, body)
    heard = _blocks(body["messages"][-1])
    content: list[dict[str, Any]] = []
    if body.get("thinking"):
        content.append({"type": "thinking", "thinking": "weather?", "signature": SIGNATURE})
        content.append({"type": "redacted_thinking", "data": "EmwKAhgB"})
    stop = "end_turn"
    if body.get("tools") and not any(block["type"] == "tool_result" for block in heard):
        name = body["tools"][0]["name"]
        call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"city": "Paris"}}
        content += [{"type": "text", "text": "Let me look."}, call]
        stop = "tool_use"
    else:
        content.append({"type": "text", "text": "sunny"})
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 2}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {**usage, "cache_creation_input_tokens": 1},
    }


def _check_message_request(path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
    if not path.endswith("/v1/messages"):
        raise Refused(404, "not_found_error", "Not Found")
    if body.get("model") != MODEL:
        raise Refused(404, "not_found_error", f"model: {body.get('model')}")
    roles = [message["role"] for message in body.get("messages", ())]
    thoughts = [
        block
        for message in body.get("messages", ())
        for block in _blocks(message)
        if block["type"] == "thinking"
    ]
    checks = {
        "anthropic-version: header is required": headers.get("anthropic-version") == "2023-06-01",
        "messages: Field required": bool(roles),
        "max_tokens: Field required": "max_tokens" in body,
        "Extra inputs are not permitted": body.keys() <= _MESSAGES_FIELDS,
        "messages: roles must alternate": all(
            role == ("user", "assistant")[at % 2] for at, role in enumerate(roles)
        ),
        "Invalid `signature` in `thinking` block": all(
            block.get("signature") == SIGNATURE for block in thoughts
        ),
    }
    for message, holds in checks.items():
        if not holds:
            raise Refused(400, "invalid_request_error", message)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _completion(path: str, _headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    if not path.endswith("/chat/completions"):
        raise Refused(404, "not_found", f"Unknown request URL: POST {path}")
    if body["model"] != MODEL:
        raise Refused(404, "model_not_found", f"The model `{body['model']}` does not exist")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "sunny"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def _response(path: str, _headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    if not path.endswith("/responses"):
        raise Refused(404, "not_found", f"Invalid URL (POST {path})")
    if body["model"] != MODEL:
        raise Refused(404, "model_not_found", f"The model `{body['model']}` does not exist")
    text = {"type": "output_text", "text": "sunny", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": MODEL,
        "status": "completed",
        "output": [{**message, "status": "completed"}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }


@contextmanager
def dialect_server(dialect: str, **settings: Any) -> Iterator[DialectServer]:
    """Run the server while the body runs."""
    state = DialectServer(dialect, **settings)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = self.path.partition("?")[0]
            try:
                self._send(200, state.answer(path, headers, json.loads(raw or b"{}")))
            except Refused as refused:
                error = {"type": refused.kind, "code": refused.kind, "message": str(refused)}
                self._send(refused.status, {"type": "error", "error": error})

        do_GET = do_POST = _answer  # noqa: N815 - the names that http.server calls

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield state
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
