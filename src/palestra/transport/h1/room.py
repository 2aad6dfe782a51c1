"""`Room`: so many inside at once, the others wait in the order in which they came."""

import asyncio
from collections import deque
from typing import final


@final
class Room:
    """A semaphore that is entered without a coroutine when there is a place.

    `if not room.try_enter(): await room.enter()`, and `leave` in the end. A place that is left
    goes to whoever waits longest, never to somebody who just came.
    """

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int) -> None:
        self._free = places
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
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                # It was given just as we gave up waiting: the next one gets it.
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place to the next in the queue."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
