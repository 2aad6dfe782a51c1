"""Fakes of model endpoints: they say what real ones were seen to say, nothing else.

`VLLM` and `LLAMA_CPP` are answers captured from vLLM 0.32.0 and llama.cpp (xllamacpp 2026.10);
`vllm_captures` beside this file holds 45 exchanges with vLLM, requests included.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from palestra.responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig
from palestra.transport import HttpReply, HttpRequest, HttpTransport, ServerClient

CAPTURES = Path(__file__).with_name("vllm_captures")


def vllm_error(message: str, kind: str = "BadRequestError", code: int = 400) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


VLLM: dict[str, tuple[int, dict[str, Any]]] = {
    "chat": (
        200,
        {
            "id": "chatcmpl-a5ae7ffd938a0105",
            "object": "chat.completion",
            "created": 1795232517,
            "model": "smollm2",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "I'm glad you're enjoying the service.",
                        "refusal": None,
                        "function_call": None,
                        "reasoning": None,
                    },
                    "logprobs": None,
                    "finish_reason": "stop",
                    "stop_reason": None,
                }
            ],
            "usage": {
                "prompt_tokens": 37,
                "total_tokens": 47,
                "completion_tokens": 10,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
        },
    ),
    "prompt overflow": (
        400,
        vllm_error(
            "This model's maximum context length is 2048 tokens. However, your prompt contains "
            "at least 2049 input tokens, which exceeds this limit even without any output "
            "tokens. Please reduce the length of the input prompt. "
            "(parameter=input_tokens, value=2049)"
        ),
    ),
    "max_tokens overflow": (
        400,
        vllm_error(
            "max_tokens=100000 cannot be greater than max_model_len=2048. Please request fewer "
            "output tokens. (parameter=max_tokens, value=100000)"
        ),
    ),
    "max_tokens of a wrong type": (
        400,
        vllm_error(
            "1 validation error:\n  {'type': 'int_parsing', 'loc': 'body.max_tokens', 'msg': "
            "'Input should be a valid integer, unable to parse string as an integer', "
            "'input': 'many'}",
            "Bad Request",
        ),
    ),
    "bad grammar": (400, vllm_error("Invalid grammar specification: 'triggers'")),
    "wrong model": (
        404,
        vllm_error(
            "The model `nope` does not exist. Valid aliases: smollm2.", "NotFoundError", 404
        ),
    ),
    "wrong path": (404, {"detail": "Not Found"}),
    "models": (200, {"object": "list", "data": [{"id": "smollm2", "object": "model"}]}),
}

LLAMA_CPP_OVERFLOW = {
    "error": {
        "code": 400,
        "type": "exceed_context_size_error",
        "message": "request (6031 tokens) exceeds the available context size (2048 tokens), "
        "try increasing it",
    }
}


def capture(name: str) -> dict[str, Any]:
    """What vLLM answered in one captured exchange: `status` and `body`."""
    response: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text())["response"]
    return response


def reply(status: int, body: Any, **headers: str) -> HttpReply:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return HttpReply(status=status, body=raw, headers=headers)


@dataclass
class ScriptedTransport:
    """Answers with the given replies, in order, then with 404; keeps the requests."""

    replies: list[HttpReply]
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, request: HttpRequest, /) -> HttpReply:
        self.requests.append(
            {
                "method": request.method,
                "url": request.url,
                "headers": dict(request.headers),
                "body": orjson.loads(request.body) if request.body else None,
                "timeout_s": request.timeout_s,
            }
        )
        # What is asked beyond the script is not there, as with an endpoint that knows little.
        return self.replies.pop(0) if self.replies else reply(404, {"detail": "Not Found"})

    async def aclose(self) -> None:
        """Nothing is open."""


def vllm_model(http: HttpTransport, **settings: Any) -> VLLMModel:
    """A `vllm_model` named policy_model whose endpoint is what answers behind `http`."""
    config = VLLMModelConfig.model_validate(
        {"name": "policy_model", "base_url": "http://fake/v1", "model": "smollm2", **settings}
    )
    return VLLMModel(config=config, server_client=ServerClient({}, http))


@asynccontextmanager
async def fake_endpoint(*replies: HttpReply) -> AsyncIterator[str]:
    """A real socket that gives the replies in order, then the last one again; yields its URL."""
    left = list(replies)
    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = [
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ]
                await reader.readexactly(length[0] if length else 0)
                found = left.pop(0) if len(left) > 1 else left[0]
                lines = [f"HTTP/1.1 {found.status} X", f"content-length: {len(found.body)}"]
                lines += [f"{name}: {value}" for name, value in found.headers.items()]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + found.body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"
        server.close()
        # From 3.12 on, its end waits for its clients to hang up.
        for writer in writers:
            writer.close()


class FakeEndpoint:
    """A fake: a real socket that says what `say` gives for each request, and can die.

    `held` keeps answers back until it is set; `waiting` counts requests that are kept. Its host
    can also die without a word (`mute`): connections stay open, and nothing is answered.
    """

    def __init__(self, say: Callable[[dict[str, Any]], HttpReply]) -> None:
        self.say = say
        self.asked: list[dict[str, Any]] = []
        self.connections = 0
        self.closed_by_peer = asyncio.Event()
        self.held = asyncio.Event()
        self.held.set()
        self.waiting = 0
        self.someone_waits = asyncio.Event()
        self.mute = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def rise(self) -> None:
        """Listen, again at the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def die(self) -> None:
        """As a killed process: no listener, every connection reset."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in tuple(self._writers):
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
                sizes = [
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ]
                body = await reader.readexactly(sizes[0] if sizes else 0)
                await self._answer(method, path, orjson.loads(body) if body else {}, writer)
        except asyncio.IncompleteReadError:
            self.closed_by_peer.set()
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(
        self, method: str, path: str, body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        self.asked.append({"method": method, "path": path, "body": body})
        self.waiting += 1
        self.someone_waits.set()
        await self.held.wait()
        if self.mute:
            await asyncio.Event().wait()
        self.waiting -= 1
        found = self.say(body)
        lines = [f"HTTP/1.1 {found.status} X", f"content-length: {len(found.body)}"]
        lines += [f"{name}: {value}" for name, value in found.headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + found.body)
        await writer.drain()


def vllm_says(body: dict[str, Any]) -> HttpReply:
    """What the captured vLLM answers: a completion, or its list of models to a GET."""
    return reply(*VLLM["chat" if body else "models"])


@asynccontextmanager
async def fake_endpoints(
    count: int, say: Callable[[dict[str, Any]], HttpReply] = vllm_says
) -> AsyncIterator[list[FakeEndpoint]]:
    """Some fakes that listen; none is left listening."""
    fakes = [FakeEndpoint(say) for _ in range(count)]
    for fake in fakes:
        await fake.rise()
    try:
        yield fakes
    finally:
        for fake in fakes:
            fake.held.set()
            await fake.die()
