"""The caller of a request. It sends the request's body, and may disconnect before the answer is
sent.

When the caller has disconnected (its process was killed, its deadline passed), the request's work
is cancelled, so that a model does not generate an unused answer. The handler has `GRACE_S` seconds
to clean up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, final

logger = logging.getLogger("palestra.server")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

GRACE_S: Final = 5.0
"""Seconds that a cancelled handler has to finish before it is cancelled a second time."""

WATCH_AFTER_S: Final = 0.5
"""Seconds before a request is watched. Shorter requests are not watched: a task for each would make
a small request a fifth more expensive."""

_GONE: Final = "http.disconnect"


@final
class Caller:
    """Watches whether the caller disconnects while its request is handled.

    `limit`: the timeout that the handling task has entered; it expires at once when the caller
    disconnects. Until the body is read, a disconnect is given to the reader of the body. The
    watching begins `WATCH_AFTER_S` after the whole body was read, or after the request came without
    a body.
    """

    __slots__ = (
        "_grace_s",
        "_limit",
        "_receive",
        "_task",
        "_timer",
        "_untold",
        "_watch",
        "_watch_after_s",
        "done",
        "gone",
        "insisted",
    )

    def __init__(
        self,
        receive: Receive,
        limit: asyncio.Timeout,
        *,
        has_body: bool = True,
        watch_after_s: float = WATCH_AFTER_S,
        grace_s: float = GRACE_S,
    ) -> None:
        self._watch_after_s = watch_after_s
        self._grace_s = grace_s
        self._receive = receive
        self._limit = limit
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None
        self.gone = False
        """Whether the caller left before it had its answer."""
        self.insisted = False
        """Whether the handler had to be cancelled a second time."""
        self.done = False
        """Set once the whole answer is sent or the request was handled: a caller that leaves then
        ends nothing."""
        self._untold = not has_body
        """Whether the app has yet to be told that there is no body."""
        if not has_body:
            self._plan_watching()

    async def receive(self) -> Message:
        """Return the next ASGI message for the app."""
        if self._untold:
            self._untold = False
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._timer is not None:
            # The whole body was given: whoever asks for more waits for the caller's leaving.
            await asyncio.wait({self._watching()})
            return {"type": _GONE}
        message = await self._receive()
        if message["type"] != _GONE and not message.get("more_body"):
            self._plan_watching()
        return message

    def close(self) -> None:
        """Stop watching: the request has been handled."""
        # A watch that ended in this turn of the loop calls `_watch_ended` after this.
        self.done = True
        if self._watch is not None:
            self._watch.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _plan_watching(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._watch_after_s, self._watching)

    def _watching(self) -> asyncio.Task[None]:
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._until_gone())
            self._watch.add_done_callback(self._watch_ended)
        return self._watch

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != _GONE:
            pass

    def _watch_ended(self, watch: asyncio.Task[None]) -> None:
        # Servers say the same when the answer is complete: the app may still have work to do.
        if self.done or watch.cancelled() or self._limit.expired():
            return
        self.gone = True
        loop = asyncio.get_running_loop()
        self._limit.reschedule(loop.time())
        self._timer = loop.call_later(self._grace_s, self._insist)

    def _insist(self) -> None:
        logger.warning(
            "a request handler still runs %g s after its caller disconnected", self._grace_s
        )
        if self._task is not None:
            self.insisted = True
            self._task.cancel()


PREFIX_SCOPE_KEY: Final = "palestra_rollout_prefix"
"""The scope's key for the prefix that a request's path came with, for apps that read it."""
