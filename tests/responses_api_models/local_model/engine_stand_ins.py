"""Small programs in the place of the engine, and an HTTP transport in the place of its port."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson

from palestra.responses_api_models.local_model.engine import EngineOrder
from palestra.responses_api_models.local_model.running import EngineTransport, RunningEngine
from palestra.transport import HttpReply, HttpRequest

SERVES = "import sys; print('READY http://127.0.0.1:1', flush=True); sys.stdin.read()"

Answer = Callable[[dict[str, Any]], Awaitable[HttpReply]]


def order(**fields: Any) -> EngineOrder:
    settings: dict[str, Any] = {
        "model_path": "/nowhere.gguf",
        "model_name": "m",
        "api_key": "k",
        "context_tokens": 256,
        "slots": 1,
        "threads": 1,
        "connections": 2,
        "parent_pid": os.getpid(),
    }
    return EngineOrder(**settings | fields)


async def start(program: str, *, timeout_s: float = 20) -> RunningEngine:
    command = (sys.executable, "-c", program)
    return await RunningEngine.start("policy", order(), timeout_s=timeout_s, command=command)


@asynccontextmanager
async def running(program: str = SERVES) -> AsyncIterator[RunningEngine]:
    engine = await start(program)
    try:
        yield engine
    finally:
        await engine.stop()


class FakePort:
    """Answers as `answer` does; remembers the bodies and how many requests were open at most."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.open = 0
        self.most_open = 0

    async def send(self, request: HttpRequest, /) -> HttpReply:
        decoded = orjson.loads(request.body or b"{}")
        self.bodies.append(decoded)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._answer(decoded)
        finally:
            self.open -= 1

    async def aclose(self) -> None:
        pass


def says(text: str) -> HttpReply:
    message = {"role": "assistant", "content": text}
    return HttpReply(200, orjson.dumps({"choices": [{"message": message}]}))


async def post(
    transport: EngineTransport, text: str, *, timeout_s: float | None = None, **fields: Any
) -> HttpReply:
    body = orjson.dumps({"messages": [{"role": "user", "content": text}], **fields})
    request = HttpRequest("POST", "http://e/v1", body=body, timeout_s=timeout_s)
    return await transport.send(request)


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until `condition` holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - no event tells of another object's state
            await asyncio.sleep(0)
