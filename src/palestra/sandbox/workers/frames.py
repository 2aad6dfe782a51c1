"""Messages between a caller and its worker: a length of four bytes, then the bytes.

Calls go out pickled: they are made by us, and may hold any text. Answers come back as
MessagePack, which cannot make the caller run anything, whatever happened to the worker.
"""

import asyncio
import pickle
import socket
import struct
from typing import Any, Final

import msgspec

LONGEST_ANSWER: Final = 64 * 2**20
"""Bytes of an answer that a caller reads."""

_LENGTH: Final = struct.Struct(">I")
_encoder: Final = msgspec.msgpack.Encoder()
_decode_answer: Final = msgspec.msgpack.Decoder(list[Any]).decode


class BrokenFrame(Exception):
    """What came is no message: the worker is not to be trusted any more."""


def call_frame(function: str, args: tuple[Any, ...]) -> bytes:
    """A call, ready to send."""
    return _framed(pickle.dumps((function, args), protocol=5))


def read_call(body: bytes) -> tuple[str, tuple[Any, ...]]:
    """The inverse of `call_frame`, on the worker's side."""
    function, args = pickle.loads(body)  # noqa: S301  # from the process that made us
    return function, args


def answer_frame(*answer: Any) -> bytes:
    """An answer, ready to send.

    Raises TypeError, ValueError or OverflowError for what it cannot say.
    """
    frame = _framed(_encoder.encode(answer))
    if len(frame) > LONGEST_ANSWER:
        raise ValueError(f"the value has {len(frame)} bytes, more than {LONGEST_ANSWER}")
    return frame


def _framed(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def receive(sock: socket.socket) -> bytes | None:
    """The next message of a blocking socket; None when the other side has gone."""
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
    """The next answer of a non-blocking socket; None when the other side has gone.

    Raises BrokenFrame.
    """
    head = await _read(sock, _LENGTH.size)
    if head is None:
        return None
    length: int = _LENGTH.unpack(head)[0]
    if length > LONGEST_ANSWER:
        raise BrokenFrame(f"an answer of {length} bytes")
    body = await _read(sock, length)
    if body is None:
        return None
    try:
        return _decode_answer(body)
    except msgspec.DecodeError as error:
        raise BrokenFrame(str(error)) from error


async def _read(sock: socket.socket, count: int) -> bytes | None:
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
