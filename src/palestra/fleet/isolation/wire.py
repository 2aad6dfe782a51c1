"""The messages between a server and its author workers.

Messages to a worker are pickled, because this process built them. Messages from a worker are
MessagePack, which cannot make this process run code, even if the worker is corrupted.

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
"""The maximum number of bytes of one message, in either direction: twice the limit of a row."""

_LENGTH: Final = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode


class Rubbish(Exception):
    """The received bytes are not a message. `remainder`: all bytes received from the place where a
    message had to begin.
    """

    def __init__(self, reason: str, remainder: bytes = b"") -> None:
        super().__init__(reason)
        self.rest = remainder


def order_frame(*order: Any) -> bytes:
    """Return a message to a worker. Raises RowError when it is too long."""
    body = pickle.dumps(order, protocol=5)
    if len(body) > LONGEST_MESSAGE:
        raise RowError(
            f"a call has {len(body):,} bytes; a worker process accepts at most {LONGEST_MESSAGE:,}",
            hint="shorten the row or the answer, or set isolated=False, to run the code inside the "
            "server's process",
        )
    return framed(body)


def read_order(body: bytes) -> tuple[Any, ...]:
    """Decode a message that `order_frame` built. Runs in the worker."""
    order: tuple[Any, ...] = pickle.loads(body)  # noqa: S301  # from the process that made us
    return order


def message_frame(*message: Any) -> bytes:
    """Return a message from a worker. Raises TypeError, ValueError or OverflowError when
    MessagePack cannot encode it or it is too long.
    """
    body = _encode(message)
    if len(body) > LONGEST_MESSAGE:
        raise ValueError(f"{len(body):,} bytes, more than {LONGEST_MESSAGE:,}")
    return framed(body)


def framed(body: bytes) -> bytes:
    """Return a body with its length in front of it."""
    return _LENGTH.pack(len(body)) + body


class BodyCutter:
    """Splits a stream of bytes into message bodies."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the bodies that are complete after `chunk`. Raises Rubbish after the bodies in
        front of the bad bytes.
        """
        buffer = self._buffer
        buffer += chunk
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                length: int = _LENGTH.unpack_from(buffer, start)[0]
                if length > LONGEST_MESSAGE:
                    raise Rubbish(
                        f"a message of {length:,} bytes is too long", bytes(buffer[start:])
                    )
                end = start + _LENGTH.size + length
                if len(buffer) < end:
                    break
                body = bytes(buffer[start + _LENGTH.size : end])
                start = end
                yield body
        finally:
            del buffer[:start]


def read_message(body: bytes) -> list[Any]:
    """Decode a message from a worker. Raises Rubbish."""
    try:
        message = _decode(body)
    except msgspec.DecodeError as error:
        raise Rubbish(str(error)) from error
    if not message or not isinstance(message[0], str):
        raise Rubbish("a message without a kind")
    return message


def sent_context(context: CallContext) -> CallContext:
    """Return a call's context for a worker, without the rollout's `activity`, which stays in this
    process.

    The deadline stays valid: all processes of a machine share `time.monotonic()`.
    """
    return replace(context, activity=None)
