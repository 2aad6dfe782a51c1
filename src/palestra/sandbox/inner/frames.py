"""The program's side of a conversation: frames on the original standard input and output."""

import os
import struct

LENGTH = struct.Struct(">I")


class Channel:
    """Moves the conversation from descriptors 0 and 1 to another one, so that the program's own
    input and output cannot disturb it.
    """

    def __init__(self) -> None:
        self._fd = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.close(nothing)

    def receive(self) -> bytes | None:
        """Return the next message; None when the other side has closed the conversation."""
        head = self._exactly(LENGTH.size)
        return None if head is None else self._exactly(LENGTH.unpack(head)[0])

    def send(self, message: bytes) -> None:
        """Write one whole message."""
        view = memoryview(LENGTH.pack(len(message)) + message)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        """Close the channel in a child process, so that only its parent uses it."""
        os.close(self._fd)

    def _exactly(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            part = os.read(self._fd, count - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)
