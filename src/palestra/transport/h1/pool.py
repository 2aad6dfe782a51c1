"""The connections to one host: which are idle, and how many may be opened at once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final

from palestra.transport.h1.connection import HttpConnection


@final
class ExchangeSlots:
    """A semaphore that is entered without a coroutine when there is a place.

    `if not room.try_enter(): await room.enter()`, and `leave` in the end. A place that is left
    goes to whoever waits longest, never to somebody who just came.
    """

    __slots__ = ("_free", "_waiting")

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Take a place if one is free."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def enter(self) -> None:
        """Wait for a place and take it."""
        if self.try_enter():
            return
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                # It was given just as we gave up waiting: the next one gets it.
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place to the next in the queue."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1


IDLE_S: Final = 15.0
"""How long an unused connection is kept. Our servers keep theirs for 30 s: when a connection
ends, it is this side that ends it, never the server just as a request goes out."""

MOST_CONNECTING: Final = 100
"""Connects to one host under way at once. A listener queues so many (asyncio 100, many others
128, uvicorn 2048, Linux at most 4096) and drops the rest, each of which then waits a second or
more: 16,000 first requests at the same moment must come as a stream. On a network of 1 ms this
still opens 100,000 connections in a second."""


@final
class HostConnections:
    """One address that is spoken to. `rooms` bound the exchanges with it: `try_enter` each, or
    else `enter`, and `leave` in the end. `dial` opens a connection.

    The connection used last is used next: so the others grow old enough to be closed.
    """

    def __init__(
        self, dial: Callable[[], Awaitable[HttpConnection]], *, rooms: tuple[ExchangeSlots, ...]
    ) -> None:
        self._dial = dial
        self._gate = ExchangeSlots(MOST_CONNECTING)
        self._idle: list[HttpConnection] = []
        self._rooms = rooms
        self._entered = 0
        """Exchanges under way, and those that wait for their turn."""

    def try_enter(self) -> bool:
        """Begin an exchange, if none waits for its turn."""
        for entered, room in enumerate(self._rooms):
            if not room.try_enter():
                for entered_room in self._rooms[:entered]:
                    entered_room.leave()
                return False
        self._entered += 1
        return True

    async def enter(self) -> None:
        """Wait for the turn to begin an exchange."""
        entered: list[ExchangeSlots] = []
        self._entered += 1
        try:
            for room in self._rooms:
                await room.enter()
                entered.append(room)
        except asyncio.CancelledError:
            self._entered -= 1
            for room in entered:
                room.leave()
            raise

    def leave(self) -> None:
        """The exchange has ended."""
        self._entered -= 1
        for room in self._rooms:
            room.leave()

    def take(self, now: float) -> HttpConnection | None:
        """An idle connection that is still open, as far as we know."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                if now - connection.idle_since < IDLE_S:
                    return connection
                connection.abort()
        return None

    def give(self, connection: HttpConnection, now: float) -> None:
        """Keep a connection for the next request, if it can have one."""
        if connection.usable:
            connection.idle_since = now
            self._idle.append(connection)

    def sweep(self, now: float) -> bool:
        """Close what was idle for too long, forget what is closed; whether this is still needed.

        It is while a connection is kept or an exchange is under way.
        """
        for connection in self._idle:
            if now - connection.idle_since >= IDLE_S:
                connection.abort()
        self._idle = [connection for connection in self._idle if connection.usable]
        return bool(self._idle or self._entered)

    async def connect(self, *, fresh: bool) -> HttpConnection:
        """A new connection; or, unless it must be `fresh`, one that was left while we waited.

        Raises what dialing does. The name is looked up each time: an answer of the DNS may
        change while a run lasts.
        """
        if not self._gate.try_enter():
            await self._gate.enter()
        try:
            idle = None if fresh else self.take(asyncio.get_running_loop().time())
            return idle or await self._dial()
        finally:
            self._gate.leave()
