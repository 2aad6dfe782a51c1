"""`EngineTransport`: the way to the engine, which mends requests and answers and bounds both.

Placed under the Chat Completions client as its HTTP transport, so that conversion, retries and
the meaning of refusals stay in one place for all model servers.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, final
from weakref import WeakValueDictionary

import orjson
from msgspec.structs import replace

from palestra.errors import DeadlineExceeded
from palestra.responses_api_models.local_model.mending import to_engine_request, with_calls
from palestra.responses_api_models.local_model.running import RunningEngine
from palestra.schema import encode_json
from palestra.transport import HttpReply, HttpRequest, HttpTransport


@final
class EngineTransport:
    """At most `at_once` requests are open; the others wait here, in order, without a socket.

    Of requests with the same prompt (the repeats of a task) one runs at a time: llama.cpp then
    finds the prompt in its cache, where repeats at once would each read it anew. Reading takes
    most of the time, and batching gives little on one or two processors.
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
        """Raises `EngineDied` besides what any transport raises."""
        timeout_s = request.timeout_s
        deadline = None if timeout_s is None else time.monotonic() + timeout_s

        async def exchange(sent: bytes | None) -> HttpReply:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            return await self._http.send(replace(request, body=sent, timeout_s=left))

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
    async def _turn(self, body: Mapping[str, Any], timeout_s: float | None) -> AsyncIterator[None]:
        """Room for one request, once no other one with the same prompt is running."""
        prompt = encode_json([body["messages"], body.get("chat_template_kwargs")])
        alone = self._prompts.setdefault(prompt, asyncio.Lock())
        async with AsyncExitStack() as held:
            self.waiting += 1
            try:
                async with asyncio.timeout(timeout_s):
                    await held.enter_async_context(alone)
                    await held.enter_async_context(self._room)
            except TimeoutError as error:
                raise DeadlineExceeded(
                    f"the local model had no room within {timeout_s or 0:.1f} s: {self._at_once} "
                    f"requests were running and {self.waiting - 1} others waiting",
                    hint="lower num_samples_in_parallel, or use a faster endpoint",
                ) from error
            finally:
                self.waiting -= 1
            yield

    async def aclose(self) -> None:
        """Nothing to close: the transport below belongs to the fleet."""
