"""What a server and its author workers say to each other.

Calls go out pickled: this process made them. What comes back is MessagePack, which cannot make
this process run anything, whatever happened to the worker.

| from the worker | fields |
|---|---|
| `VALUE` | call, value |
| `RAISED` | call, class name, text, the author's frames |
| `FAILED` | call, error envelope |
| `NO_MEMORY` | call |
| `UNREADABLE` | call, why its body cannot be read |
| `BUG` | path, class name, text, the author's frames: for the log |
| `ASK` | call, question, server, request: a call through `server_client` |
"""

import pickle
import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from palestra.errors import RowError
from palestra.transport import CallContext

VALUE, RAISED, FAILED, NO_MEMORY = "value", "raised", "failed", "no memory"
UNREADABLE = "unreadable"
BUG, ASK = "bug", "ask"
ANSWERS: Final = frozenset({VALUE, RAISED, FAILED, NO_MEMORY, UNREADABLE})
CALL, CANCEL, END, REPLY = "call", "cancel", "end", "reply"

LONGEST_MESSAGE: Final = 256 * 2**20
"""Bytes of one message, either way: twice a row."""

_LENGTH: Final = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode


class Rubbish(Exception):
    """What came is no message. `remainder`: all that has come where a message had to begin."""

    def __init__(self, reason: str, remainder: bytes = b"") -> None:
        super().__init__(reason)
        self.rest = remainder


def order_frame(*order: Any) -> bytes:
    """A message to a worker. Raises RowError for one that is too long."""
    body = pickle.dumps(order, protocol=5)
    if len(body) > LONGEST_MESSAGE:
        raise RowError(
            f"a call has {len(body):,} bytes, and a worker process takes {LONGEST_MESSAGE:,}",
            hint="shorten the row or the answer, or set isolated=False, to run the code inside the "
            "server's process",
        )
    return framed(body)


def read_order(body: bytes) -> tuple[Any, ...]:
    """The inverse of `order_frame`, in the worker."""
    order: tuple[Any, ...] = pickle.loads(body)  # noqa: S301  # from the process that made us
    return order


def message_frame(*message: Any) -> bytes:
    """A message of a worker. Raises TypeError, ValueError or OverflowError for what has no form."""
    body = _encode(message)
    if len(body) > LONGEST_MESSAGE:
        raise ValueError(f"{len(body):,} bytes, more than {LONGEST_MESSAGE:,}")
    return framed(body)


def framed(body: bytes) -> bytes:
    """A body with its length before it."""
    return _LENGTH.pack(len(body)) + body


class BodyCutter:
    """Cuts a stream of bytes into bodies."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The bodies that are complete now. Raises Rubbish after those that came before it."""
        buffer = self._buffer
        buffer += chunk
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                length: int = _LENGTH.unpack_from(buffer, start)[0]
                if length > LONGEST_MESSAGE:
                    raise Rubbish(f"a message of {length:,} bytes", bytes(buffer[start:]))
                end = start + _LENGTH.size + length
                if len(buffer) < end:
                    break
                body = bytes(buffer[start + _LENGTH.size : end])
                start = end
                yield body
        finally:
            del buffer[:start]


def read_message(body: bytes) -> list[Any]:
    """A message of a worker. Raises Rubbish."""
    try:
        message = _decode(body)
    except msgspec.DecodeError as error:
        raise Rubbish(str(error)) from error
    if not message or not isinstance(message[0], str):
        raise Rubbish("a message without a kind")
    return message


def sent_context(context: CallContext) -> CallContext:
    """A call's context for a worker: what the rollout is doing stays here.

    The deadline means the same there: processes of a machine share `time.monotonic()`.
    """
    return replace(context, activity=None)
