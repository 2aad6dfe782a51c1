"""The connections to one host: the idle ones, and the limit on opening connections at once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final

from palestra.transport.h1.connection import HttpConnection


@final
class ExchangeSlots:
    """A semaphore that is entered without a coroutine when a slot is free.

    Use: `if not room.try_enter(): await room.enter()`, and `leave` at the end. A freed slot goes to
    the waiter that has waited longest, never to a newcomer.
    """

    __slots__ = ("_free", "_waiting")

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Take a slot if one is free. Return whether it was taken."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def enter(self) -> None:
        """Wait for a slot and take it."""
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
        """Give the slot to the next waiter in the queue."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1


IDLE_S: Final = 15.0
"""Seconds for which an unused connection is kept. Palestra's servers keep theirs for 30 s, so that
this side closes a connection first, and never the server just when a request is sent."""

MOST_CONNECTING: Final = 100
"""The largest number of connects to one host at the same time. A listening server queues only so
many (asyncio 100, many others 128, uvicorn 2048, Linux at most 4096) and drops the rest, each of
which then waits a second or more: so 16,000 first requests must be spread out. On a network with 1
ms latency this still opens 100,000 connections per second."""


@final
class HostConnections:
    """The connections to one address. `rooms` limit the exchanges with it: call `try_enter`, or
    else `enter`, for each exchange, and `leave` at the end. `dial` opens a connection.

    The most recently used connection is used next, so that the others become idle long enough to be
    closed.
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
        """Begin an exchange if a slot is free. Return whether it began."""
        for entered, room in enumerate(self._rooms):
            if not room.try_enter():
                for entered_room in self._rooms[:entered]:
                    entered_room.leave()
                return False
        self._entered += 1
        return True

    async def enter(self) -> None:
        """Wait for a free slot, and begin an exchange."""
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
        """End an exchange and free its slot."""
        self._entered -= 1
        for room in self._rooms:
            room.leave()

    def take(self, now: float) -> HttpConnection | None:
        """Return an idle connection that still seems open; None without one."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                if now - connection.idle_since < IDLE_S:
                    return connection
                connection.abort()
        return None

    def give(self, connection: HttpConnection, now: float) -> None:
        """Keep a connection for the next request, if it is still usable."""
        if connection.usable:
            connection.idle_since = now
            self._idle.append(connection)

    def sweep(self, now: float) -> bool:
        """Close connections that were idle for too long, and drop closed ones. Return whether this
        object is still needed.

        It is needed while a connection is kept or an exchange is running.
        """
        for connection in self._idle:
            if now - connection.idle_since >= IDLE_S:
                connection.abort()
        self._idle = [connection for connection in self._idle if connection.usable]
        return bool(self._idle or self._entered)

    async def connect(self, *, fresh: bool) -> HttpConnection:
        """Return a new connection; without `fresh`, an idle one if it became free while waiting.

        Raises the errors of `dial`. The name is resolved each time, because its DNS answer may
        change during a run.
        """
        if not self._gate.try_enter():
            await self._gate.enter()
        try:
            idle = None if fresh else self.take(asyncio.get_running_loop().time())
            return idle or await self._dial()
        finally:
            self._gate.leave()
