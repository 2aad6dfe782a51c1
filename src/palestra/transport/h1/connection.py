"""One socket and its exchanges: one request at a time, its deadline, and how it ended.

Rules, each learned from a hard bug:

- A connection whose exchange did not end with a whole answer is closed at once, so that the rest
  of an abandoned answer never reaches the next request.
- Data that arrives when no request was sent closes the connection. If the event loop was too busy
  to notice the data, the socket itself is checked before the next request: otherwise a proxy's
  late 408 would be read as the answer to that request.
- The deadline is one timer per connection, not per request. It is set only when no timer would
  fire in time, and is checked again when it fires: most exchanges need no new timer.
- A request is given to the transport as a whole, even after `pause_writing`. Its body is one
  `bytes` object that exists already, so waiting would save no memory. An answer that comes before
  the body was read (an error, say) is received while the rest still waits to be written.
"""

import asyncio
import os
import select
import ssl
from collections.abc import Callable
from typing import ClassVar, Final, cast, final

from palestra.transport.h1.answers import AnswerReader, Malformed
from palestra.transport.http import HttpReply, HttpRequest

JOINED_BYTES: Final = 16 * 1024
"""The longest body that is joined with the head for one `write`. For longer ones copying costs
more."""

NEVER: Final = float("inf")

_TIMER_GRAIN_S: Final = 0.001
"""uvloop's clock counts milliseconds, so a timer may fire this many seconds early."""


class ExchangeEnded(Exception):
    """Error: an exchange ended without an answer. The message says how.

    `was_sent`: whether the peer may have read the request.
    """

    was_sent: ClassVar[bool] = True


class Unsent(ExchangeEnded):
    """Error: no byte of the request was sent."""

    was_sent = False


class ConnectionBroken(ExchangeEnded):
    """Error: the connection ended, or the received bytes are no valid answer."""


class Late(ExchangeEnded):
    """Error: the deadline passed."""


@final
class HttpConnection(asyncio.Protocol):
    """One connection. Call `begin` and await the answer; call `abort` if you stop awaiting it
    early.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_lost: Callable[["HttpConnection"], object]
    ) -> None:
        self._loop = loop
        self._on_lost = on_lost
        self._reader = AnswerReader()
        self._answer: asyncio.Future[HttpReply] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = NEVER
        self._deadline = NEVER
        self.exchanges = 0
        """How many were begun."""
        self.idle_since = 0.0
        """The loop's time when the last one ended."""
        self.lost = False
        """Whether the event loop has let go of it."""

    @property
    def usable(self) -> bool:
        """Whether another request may be written. The peer may have closed it without notice."""
        return not self._transport.is_closing()

    @property
    def heard(self) -> bool:
        """Whether any byte of an answer has come since the exchange began."""
        return self._reader.received > 0

    def begin(
        self, head: bytes, request: HttpRequest, deadline: float, bodiless: bool
    ) -> "asyncio.Future[HttpReply]":
        """Write a request. Return a future that ends with the answer, or with an `ExchangeEnded`.

        `deadline` is a time of the event loop. `bodiless`: the answer has no body.
        """
        body = request.body
        self.exchanges += 1
        answer: asyncio.Future[HttpReply] = self._loop.create_future()
        transport = self._transport
        self._reader.expect(bodiless, request.body_limit)
        if transport.is_closing():
            answer.set_exception(
                Unsent("the server closed the connection before a request was sent")
            )
            return answer
        if self.exchanges > 1 and self._unread.poll(0):
            self.abort()
            answer.set_exception(Unsent("something unasked, or its end, waits on it"))
            return answer
        self._answer = answer
        self._deadline = deadline
        if deadline < self._alarm_at:
            self._set_alarm(deadline)
        if not body:
            transport.write(head)
        elif len(body) <= JOINED_BYTES:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        if transport.is_closing():
            # The very first write failed, so the kernel took nothing.
            self._end(Unsent("the server had closed the connection"))
        return answer

    def abort(self) -> None:
        """Close the connection at once, even during an exchange. The peer sees this."""
        self._transport.abort()

    def close(self, why: str) -> None:
        """Close the connection at once; a running exchange fails with the reason `why`."""
        self._end(self._broken(why))

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's by behaviour, not by class. Both set TCP_NODELAY.
        self._transport: asyncio.Transport = cast("asyncio.Transport", transport)
        # A `poll` of this one socket, 0.8 us each time; to peek costs more than twice as much.
        # With TLS it may be no more than a session ticket that waits: that costs a connection.
        self._unread = select.poll()
        self._unread.register(transport.get_extra_info("socket"), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.abort()
            return
        try:
            reply = self._reader.feed(data)
        except Malformed as problem:
            self._end(_garbled(problem))
        else:
            if reply is not None:
                self._give(reply, answer)

    def eof_received(self) -> None:
        answer = self._answer
        if answer is not None:
            try:
                reply = self._reader.end()
            except Malformed as problem:
                self._end(_garbled(problem))
                return
            if reply is not None:
                self._give(reply, answer)
                return
        self._end(self._broken("the peer closed it"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._end(self._broken(reason(exc)))
        self._reader.close()
        self.lost = True
        self._on_lost(self)

    # The ends of an exchange.

    def _give(self, reply: HttpReply, answer: "asyncio.Future[HttpReply]") -> None:
        self._answer = None
        transport = self._transport
        # An answer may come before the request was written: what is left of it must not go out
        # in front of the next one.
        if not self._reader.reusable or transport.get_write_buffer_size():
            transport.abort()
        if not answer.done():
            answer.set_result(reply)

    def _end(self, ending: ExchangeEnded) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(ending)
        self.abort()

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._alarm_at = NEVER
        if self._answer is None:
            return
        if self._deadline - self._loop.time() > _TIMER_GRAIN_S:
            self._set_alarm(self._deadline)
        else:
            self._end(Late(self._reader.cut_off() if self.heard else ""))

    def _broken(self, why: str) -> ConnectionBroken:
        where = self._reader.cut_off()
        return ConnectionBroken(f"the connection broke before the answer came ({why}, {where})")


def _garbled(problem: Malformed) -> ConnectionBroken:
    return ConnectionBroken(f"what came is not an answer of HTTP: {problem}")


def reason(error: BaseException | None) -> str:
    """Return why a connection ended or could not be opened, in the operating system's words."""
    if error is None:
        return "closed"
    if isinstance(error, ssl.SSLError):
        # Its number is OpenSSL's: among those of the system it means something else.
        return str(error)
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    words = str(getattr(error, "strerror", None) or error)
    if not words and isinstance(error, ConnectionError):
        return "the peer closed it"
    return words or type(error).__name__
