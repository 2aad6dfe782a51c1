"""The sandbox's end of a conversation: frames on what were standard input and output."""

import os
import struct

LENGTH = struct.Struct(">I")


class Channel:
    """Takes the conversation away from descriptors 0 and 1, where a program would disturb it."""

    def __init__(self) -> None:
        self._fd = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.close(nothing)

    def receive(self) -> bytes | None:
        """The next message; None when there will be no other."""
        head = self._exactly(LENGTH.size)
        return None if head is None else self._exactly(LENGTH.unpack(head)[0])

    def send(self, message: bytes) -> None:
        """Answer."""
        view = memoryview(LENGTH.pack(len(message)) + message)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        """In a child: leave the conversation to its parent."""
        os.close(self._fd)

    def _exactly(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            part = os.read(self._fd, count - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)
