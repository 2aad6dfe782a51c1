"""The connections to one host: which are idle, and how many may be opened at once."""

import asyncio
import contextlib
from typing import Final, final

from palestra.transport.h1.connection import Connection, reason
from palestra.transport.h1.room import Room
from palestra.transport.http import ConnectionFailed

IDLE_S: Final = 15.0
"""How long an unused connection is kept. Our servers keep theirs for 30 s: when a connection
ends, it is this side that ends it, never the server just as a request goes out."""

MOST_CONNECTING: Final = 100
"""Connects to one host under way at once. A listener queues so many (asyncio 100, many others
128, uvicorn 2048, Linux at most 4096) and drops the rest, each of which then waits a second or
more: 16,000 first requests at the same moment must come as a stream. On a network of 1 ms this
still opens 100,000 connections in a second."""

CONNECT_S: Final = 30.0
"""How long one connect may take. A SYN that is dropped is sent again after 1, 3, 7 and 15 s."""

CLOSING_S: Final = 1.0
"""How long closing everything may take; it is one turn of the event loop."""


@final
class Opened:
    """Every connection of a transport that is open, in use or idle."""

    def __init__(self) -> None:
        self._connections: set[Connection] = set()
        self._emptied: asyncio.Future[None] | None = None

    def add(self, connection: Connection) -> None:
        """It was opened; it may have ended since."""
        if not connection.lost:
            self._connections.add(connection)

    def forget(self, connection: Connection) -> None:
        """It is closed."""
        self._connections.discard(connection)
        if not self._connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    async def close(self, why: str) -> None:
        """Close all, and wait until the event loop has let go of them. Their exchanges fail."""
        if not self._connections:
            return
        self._emptied = asyncio.get_running_loop().create_future()
        for connection in self._connections:
            connection.close(why)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await self._emptied


@final
class Host:
    """One address that is spoken to. `rooms` bound the exchanges with it: `try_enter` each, or
    else `enter`, and `leave` in the end.

    The connection used last is used next: so the others grow old enough to be closed.
    """

    __slots__ = ("_address", "_gate", "_idle", "_opened", "_rooms")

    def __init__(
        self, address: tuple[str, int], *, rooms: tuple[Room, ...], opened: Opened
    ) -> None:
        self._address = address
        self._gate = Room(MOST_CONNECTING)
        self._idle: list[Connection] = []
        self._opened = opened
        self._rooms = rooms

    def try_enter(self) -> bool:
        """Begin an exchange, if none waits for its turn."""
        for entered, room in enumerate(self._rooms):
            if not room.try_enter():
                for taken in self._rooms[:entered]:
                    taken.leave()
                return False
        return True

    async def enter(self) -> None:
        """Wait for the turn to begin an exchange."""
        entered: list[Room] = []
        try:
            for room in self._rooms:
                await room.enter()
                entered.append(room)
        except asyncio.CancelledError:
            for room in entered:
                room.leave()
            raise

    def leave(self) -> None:
        """The exchange has ended."""
        for room in self._rooms:
            room.leave()

    def take(self, now: float) -> Connection | None:
        """An idle connection that is still open, as far as we know."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                if now - connection.idle_since < IDLE_S:
                    return connection
                connection.abort()
        return None

    def give(self, connection: Connection, now: float) -> None:
        """Keep a connection for the next request, if it can have one."""
        if connection.usable:
            connection.idle_since = now
            self._idle.append(connection)

    def sweep(self, now: float) -> bool:
        """Close what was idle for too long, forget what is closed; whether any are left."""
        kept = []
        for connection in self._idle:
            if connection.usable:
                if now - connection.idle_since < IDLE_S:
                    kept.append(connection)
                else:
                    connection.abort()
        self._idle = kept
        return bool(kept)

    async def connect(self, *, fresh: bool) -> Connection:
        """A new connection; or, unless it must be `fresh`, one that was left while we waited.

        Raises `ConnectionFailed`. The name is looked up each time: an answer of the DNS may
        change while a run lasts.
        """
        if not self._gate.try_enter():
            await self._gate.enter()
        try:
            loop = asyncio.get_running_loop()
            left = None if fresh else self.take(loop.time())
            return left or await self._open(loop)
        finally:
            self._gate.leave()

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Connection:
        host, port = self._address
        try:
            async with asyncio.timeout(CONNECT_S) as limit:
                _, connection = await loop.create_connection(
                    lambda: Connection(loop, self._opened.forget), host, port
                )
        except (OSError, ValueError) as error:
            # Our own timeout is an OSError too, as is the kernel's; ValueError is a host name
            # that no DNS could have.
            if limit.expired():
                raise ConnectionFailed(
                    f"no connection within {CONNECT_S:.0f} s", sent=False
                ) from error
            raise ConnectionFailed(
                reason(error), sent=False, hint="is the server running, and is this its address?"
            ) from error
        self._opened.add(connection)
        return connection
