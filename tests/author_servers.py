"""Servers under test, called in this process, and rows to call them with."""

import asyncio
from typing import Any, TypeVar

import orjson

from palestra.schema import encode_json
from palestra.server import ResourcesServer, Server
from palestra.transport import HttpClient, HttpReply, ServerClient, call_asgi

S = TypeVar("S", bound=ResourcesServer)

PARAMS: dict[str, Any] = {"input": "2 + 2 = ?"}
TASK: dict[str, Any] = {"responses_create_params": PARAMS}


def turn(text: str = "4", **fields: Any) -> dict[str, Any]:
    """A row with a response whose last message is `text`."""
    said = {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
    response = {"id": "r", "created_at": 0, "model": "m", "output": [said]}
    return {**TASK, "response": response, **fields}


def nobody() -> ServerClient:
    return ServerClient({}, HttpClient())


def server_of(cls: type[S], name: str = "env") -> S:
    config = cls.model_fields["config"].annotation
    return cls(config=config(name=name), server_client=nobody())


def ask(server: Server, path: str, body: Any = None, **kwargs: Any) -> HttpReply:
    """POST to the server's app; `body` may be bytes."""
    raw = body if isinstance(body, bytes) else encode_json({} if body is None else body)
    return asyncio.run(call_asgi(server.asgi_app(), "POST", path, body=raw, **kwargs))


def error_of(reply: HttpReply) -> dict[str, Any]:
    """The envelope of a failed answer."""
    found: dict[str, Any] = orjson.loads(reply.body)["error"]
    return found
