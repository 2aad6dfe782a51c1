"""Messages between a caller and its worker: a length of four bytes, then the content.

Calls are pickled, because our process builds them and they may contain any text. Answers are
MessagePack, which cannot make the caller run code, even if the worker is corrupted.
"""

import asyncio
import pickle
import socket
import struct
from typing import Any, Final

import msgspec

LONGEST_ANSWER: Final = 64 * 2**20
"""The maximum number of bytes of an answer that a caller reads."""

_LENGTH: Final = struct.Struct(">I")
_encoder: Final = msgspec.msgpack.Encoder()
_decode_answer: Final = msgspec.msgpack.Decoder(list[Any]).decode


class BrokenFrame(Exception):
    """The received bytes are not a message, so the worker can no longer be trusted."""


def call_frame(function: str, args: tuple[Any, ...]) -> bytes:
    """Return a call as bytes that are ready to send."""
    return _framed(pickle.dumps((function, args), protocol=5))


def read_call(body: bytes) -> tuple[str, tuple[Any, ...]]:
    """Return function and arguments from the body of a call. Runs in the worker."""
    function, args = pickle.loads(body)  # noqa: S301  # from the process that made us
    return function, args


def answer_frame(*answer: Any) -> bytes:
    """Return an answer as bytes that are ready to send.

    Raises TypeError, ValueError or OverflowError when MessagePack cannot encode it or it is too
    long.
    """
    frame = _framed(_encoder.encode(answer))
    if len(frame) > LONGEST_ANSWER:
        raise ValueError(f"the value has {len(frame)} bytes, more than {LONGEST_ANSWER}")
    return frame


def _framed(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def receive(sock: socket.socket) -> bytes | None:
    """Return the next message of a blocking socket; None when the other side has closed it."""
    head = _receive_all(sock, _LENGTH.size)
    return None if head is None else _receive_all(sock, _LENGTH.unpack(head)[0])


def _receive_all(sock: socket.socket, count: int) -> bytes | None:
    buffer = bytearray(count)
    view, got = memoryview(buffer), 0
    while got < count:
        byte_count = sock.recv_into(view[got:])
        if not byte_count:
            return None
        got += byte_count
    return bytes(buffer)


async def receive_answer(sock: socket.socket) -> list[Any] | None:
    """Return the next answer of a non-blocking socket; None when the other side has closed it.

    Raises BrokenFrame.
    """
    head = await _read_exactly(sock, _LENGTH.size)
    if head is None:
        return None
    length: int = _LENGTH.unpack(head)[0]
    if length > LONGEST_ANSWER:
        raise BrokenFrame(f"an answer of {length} bytes")
    body = await _read_exactly(sock, length)
    if body is None:
        return None
    try:
        return _decode_answer(body)
    except msgspec.DecodeError as error:
        raise BrokenFrame(str(error)) from error


async def _read_exactly(sock: socket.socket, count: int) -> bytes | None:
    loop = asyncio.get_running_loop()
    buffer = bytearray()
    while len(buffer) < count:
        try:
            chunk = await loop.sock_recv(sock, min(count - len(buffer), 2**20))
        except ConnectionResetError:
            return None
        if not chunk:
            return None
        buffer += chunk
    return bytes(buffer)
