"""A worker process that the test plays."""

import asyncio
import socket
from typing import Any

from palestra.fleet.isolation.wire import message_frame, read_order
from palestra.sandbox import WorkerHandle, receive

LIMIT_S = 5.0


class PlayedWorker:
    """Forks as a `Keeper` does; the worker's ends of the sockets are the test's."""

    def __init__(self) -> None:
        self._ours, self.calls = socket.socketpair()
        self._our_line, self._line = socket.socketpair()
        for sock in (self._ours, self._our_line):
            sock.setblocking(False)
        self.calls.settimeout(LIMIT_S)

    async def fork(self) -> WorkerHandle:
        return WorkerHandle(self._ours, self._our_line, 0)

    def end(self) -> None:
        for sock in (self._ours, self.calls, self._our_line, self._line):
            sock.close()

    async def order(self) -> tuple[Any, ...]:
        """What the server sends next."""
        body = await asyncio.to_thread(receive, self.calls)
        assert body is not None
        return read_order(body)

    def say(self, *message: Any) -> None:
        self.calls.sendall(message_frame(*message))
