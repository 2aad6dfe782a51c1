"""Control the engine process from this process: start it, call it while it runs, and stop it."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar, final
from weakref import WeakValueDictionary

import orjson
from msgspec.structs import replace

from palestra.errors import DeadlineExceeded, InfraError, ServerDied, require_extra
from palestra.fleet import Child, ChildExit
from palestra.responses_api_models.local_model.engine import READY, EngineOrder
from palestra.responses_api_models.local_model.mending import to_engine_request, with_calls
from palestra.schema import JsonObject, encode_json
from palestra.transport import HttpReply, HttpRequest, HttpTransport

logger = logging.getLogger("palestra.local_model")

ENGINE = Path(__file__).with_name("engine.py")

Answer = TypeVar("Answer")


class EngineDied(InfraError):
    """The error for an engine process that has ended. It is not restarted, so no retry can help."""

    retriable = False
    ending: ChildExit | None = None
    """How the process ended. A client in the same process reports this as the end of a server."""


def require_engine(module: str = "xllamacpp") -> None:
    """Raise ConfigError, which names the extra to install, when llama.cpp is not installed."""
    require_extra(module, extra="local", what="the local model")


@final
class RunningEngine:
    """One engine process, created with `start`."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.ending: asyncio.Task[ChildExit] = asyncio.create_task(
            child.ended(), name=f"end of {child.name}"
        )
        """Done when the process has ended."""
        self.pid = child.pid
        self.url = ""

    @classmethod
    async def start(
        cls,
        name: str,
        order: EngineOrder,
        *,
        timeout_s: float,
        command: tuple[str, ...] = (sys.executable, "-P", str(ENGINE)),
    ) -> Self:
        """Start an engine and wait until it answers.

        Raises ServerDied, with the engine's last lines: the engine ended or was not ready in time.
        The process is stopped then.
        """
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        level = logging.INFO if order.verbose else logging.DEBUG

        def on_line(_name: str, line: str) -> None:
            if line.startswith(READY) and not ready.done():
                ready.set_result(line.removeprefix(READY))
            else:
                logger.log(level, "%s | %s", name, line)

        child = await Child.spawn(name, list(command), order=order.as_line(), on_line=on_line)
        engine = cls(child)
        try:
            engine.url = await engine._until(ready, timeout_s)
        except BaseException:
            await engine.stop()
            raise
        return engine

    async def _until(self, ready: asyncio.Future[str], timeout_s: float) -> str:
        either: set[asyncio.Future[Any]] = {ready, self.ending}
        await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            return ready.result()
        if self.ending.done():
            raise self.ending.result().as_error(before_ready=True)
        raise ServerDied(
            f"{self._child.name} was not ready within {timeout_s:.0f} s",
            hint="raise start_timeout_s; a busy machine may need half a minute to load the model",
        )

    async def call(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the result of `send`. Raises `EngineDied`: the engine ends first."""
        if self.ending.done():
            raise self._died()
        sending = asyncio.ensure_future(send())
        try:
            either: set[asyncio.Future[Any]] = {sending, self.ending}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            is_answered = sending.done() and sending.exception() is None
            if self.ending.done() and not is_answered:
                raise self._died()
            return await sending
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending})

    def _died(self) -> EngineDied:
        if self.ending.cancelled():
            return EngineDied(f"{self._child.name}: the model was stopped")
        ending = self.ending.result()
        last = "".join(f"\n  | {line}" for line in ending.last_lines) or " (it printed nothing)"
        died = EngineDied(
            f"{self._child.name}: the model's process {self.pid} ended with {ending.how}; "
            f"its last lines:{last}",
            hint="the model is not restarted: start the run again. After SIGKILL, look for the "
            "kernel's out-of-memory message (dmesg)",
        )
        died.ending = ending
        return died

    async def stop(self) -> None:
        """End the process. Repeated calls have no further effect."""
        self.ending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.ending
        await self._child.stop()


@final
class EngineTransport:
    """A transport that keeps at most `at_once` requests open; more requests wait in order, without
    a socket.

    Requests with the same prompt (the repeats of a task) run one at a time. Then llama.cpp finds
    the prompt in its cache; concurrent requests would each process it again. Processing the prompt
    takes most of the time, and batching gains little on one or two processors.
    """

    def __init__(
        self,
        http: HttpTransport,
        engine: RunningEngine,
        *,
        at_once: int,
        max_tokens: int,
        context_tokens: int,
    ) -> None:
        self._http = http
        self._engine = engine
        self._room = asyncio.Semaphore(at_once)
        self._at_once = at_once
        # A lock lives as long as somebody holds it or waits for it.
        self._prompts: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._max_tokens = max_tokens
        self._context_tokens = context_tokens
        self.waiting = 0

    async def send(self, request: HttpRequest, /) -> HttpReply:
        """Send one request. Raises `EngineDied`, and the errors of any transport."""
        timeout_s = request.timeout_s
        deadline = None if timeout_s is None else time.monotonic() + timeout_s

        async def exchange(body: bytes | None) -> HttpReply:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            return await self._http.send(replace(request, body=body, timeout_s=left_s))

        if request.body is None:
            return await self._engine.call(lambda: exchange(None))
        mended = to_engine_request(
            orjson.loads(request.body),
            max_tokens=self._max_tokens,
            context_tokens=self._context_tokens,
        )
        async with self._turn(mended.body, timeout_s):
            reply = await self._engine.call(lambda: exchange(encode_json(mended.body)))
        if reply.status != 200 or not mended.has_tools:
            return reply
        return replace(reply, body=encode_json(with_calls(orjson.loads(reply.body), mended)))

    @asynccontextmanager
    async def _turn(self, body: JsonObject, timeout_s: float | None) -> AsyncIterator[None]:
        """Wait for a free place, and until no other request with the same prompt runs."""
        prompt = encode_json([body["messages"], body.get("chat_template_kwargs")])
        prompt_lock = self._prompts.setdefault(prompt, asyncio.Lock())
        async with AsyncExitStack() as turn_locks:
            self.waiting += 1
            try:
                async with asyncio.timeout(timeout_s):
                    await turn_locks.enter_async_context(prompt_lock)
                    await turn_locks.enter_async_context(self._room)
            except TimeoutError as error:
                raise DeadlineExceeded(
                    f"the local model had no room for this request within {timeout_s or 0:.1f} "
                    f"s: {self._at_once} requests were running and {self.waiting - 1} others "
                    "waiting",
                    hint="lower num_samples_in_parallel, or use a faster endpoint",
                ) from error
            finally:
                self.waiting -= 1
            yield

    async def aclose(self) -> None:
        """Do nothing: the underlying transport belongs to the fleet."""
