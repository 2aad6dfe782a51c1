"""Frames on a stream socket: four bytes of length, then so many bytes."""

import socket
import struct

LENGTH = struct.Struct(">I")
LONGEST = 1 << 30


class StreamClosed(Exception):
    """The other side has closed the connection."""


def send(sock: socket.socket, *frames: bytes) -> None:
    """Send frames. Raises OSError when the other side is gone."""
    for frame in frames:
        sock.sendall(LENGTH.pack(len(frame)))
        sock.sendall(frame)


def receive(sock: socket.socket) -> bytes:
    """The next frame. Raises `StreamClosed` when there is none."""
    (length,) = LENGTH.unpack(_exactly(sock, LENGTH.size))
    return _exactly(sock, length)


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise StreamClosed
        parts += part
    return bytes(parts)
