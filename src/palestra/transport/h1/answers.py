"""Converts received bytes, in chunks of any size, to an `HttpReply`.

The parser is llhttp (`httptools`, as in uvicorn). This module decides what the parser leaves open:
which answers are final, where an answer without a length ends, and how large one may be.
"""

import zlib
from typing import Final, final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from palestra.transport.http import HttpReply, parse_set_cookies

MOST_HEAD_BYTES = 256 * 1024
"""The longest head of an answer that is accepted; common servers stop at 64 KiB."""

MOST_BODY_BYTES = 1 << 30
"""The longest body that is accepted, 1 GiB: a thousand times the largest trajectory with its token
ids. A longer answer is treated as endless, because it would use up the process's memory."""

_COMPRESSIONS: Final = frozenset({"gzip", "x-gzip", "deflate"})
_FOREIGN_COMPRESSIONS: Final = frozenset({"br", "zstd", "compress", "x-compress"})


class Malformed(Exception):
    """Error: the received bytes are not a valid HTTP answer. The message says what is wrong."""


@final
class AnswerReader:
    """Reads one answer after another. Call `expect`, then `feed` until it returns a reply, or
    `end`.
    """

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        # What other clients overlook too: bare line feeds, blanks after a chunk's size.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._chunks: list[bytes] = []
        self._fields: list[tuple[bytes, bytes]] = []
        self._headers: dict[str, str] = {}
        self.expect()

    def expect(self, bodiless: bool = False, body_limit: int | None = None) -> None:
        """Begin the next answer. `bodiless`: it has no body, whatever its headers say.

        After `body_limit` bytes of the body the answer counts as complete.
        """
        self._bodiless = bodiless
        self._body_limit = body_limit
        self._complete = False
        self._head_ended = False
        self._status = 0
        self.received = 0
        """Bytes of this answer so far."""
        self.reusable = False
        """Once it is complete: whether another one may follow on its connection."""

    def close(self) -> None:
        """Stop reading. Deletes the parser, because reader and parser refer to each other."""
        del self._parser

    def feed(self, data: bytes) -> HttpReply | None:
        """Parse received bytes. Return the reply when it is complete, else None. Raises
        `Malformed`.
        """
        self.received += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            # What follows an answer cannot spoil it; only its connection.
            self.reusable = False
            if not self._complete:
                raise _why(error, data) from None
        except HttpParserUpgrade:
            raise Malformed("it switches to another protocol, which was not requested") from None
        if self._complete or self._reached_limit():
            return self._reply()
        if self.received > MOST_HEAD_BYTES:
            if not self._head_ended:
                raise Malformed(f"its head does not end within {MOST_HEAD_BYTES} bytes")
            if self.received > MOST_BODY_BYTES + MOST_HEAD_BYTES:
                raise Malformed(f"its body does not end within {MOST_BODY_BYTES} bytes")
        return None

    def end(self) -> HttpReply | None:
        """Handle the end of the connection. Return the reply if its body ends there, None if it is
        cut off.
        """
        headers = self._headers
        if not self._head_ended or "content-length" in headers or "transfer-encoding" in headers:
            return None
        self.reusable = False
        return self._reply()

    def _reached_limit(self) -> bool:
        limit = self._body_limit
        return limit is not None and sum(map(len, self._chunks)) >= limit

    def cut_off(self) -> str:
        """Return a text about how much of the answer had arrived."""
        if not self.received:
            return "before the first byte of the answer"
        if not self._head_ended:
            return f"after {self.received} bytes, within the answer's head"
        length = self._headers.get("content-length", "an unknown number of")
        return f"after {sum(map(len, self._chunks))} of {length} bytes of the answer's body"

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Raise `Malformed` when bytes follow a complete answer: only one request is sent at a
        time.
        """
        if self._complete:
            self.reusable = False
            raise Malformed("more data follows it")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header. Trailers after the body are ignored."""
        if not self._head_ended:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Decide from status and headers how the body ends."""
        self._head_ended = True
        self._status = self._parser.get_status_code()
        self._headers = headers = {
            name.decode("utf-8", "surrogateescape").lower(): value.decode(
                "utf-8", "surrogateescape"
            )
            for name, value in self._fields
        }
        if "transfer-encoding" in headers:
            self._check_transfer_encoding()
        if "content-length" in headers and int(headers["content-length"]) > MOST_BODY_BYTES:
            raise Malformed(f"its body is longer than {MOST_BODY_BYTES} bytes")
        if self._bodiless and self._status >= 200:
            # The parser goes on to wait for a body: this connection is done for.
            self._complete = True

    def _check_transfer_encoding(self) -> None:
        # In several lines or in one, it is one list.
        coding = ", ".join(
            value.decode("utf-8", "surrogateescape").strip(" \t").lower()
            for name, value in self._fields
            if name.lower() == b"transfer-encoding"
        )
        if coding == "identity":
            # None at all: the peer's end is the body's.
            del self._headers["transfer-encoding"]
        elif coding != "chunked":
            raise Malformed(f"its transfer-encoding is {coding!r}")

    def on_body(self, chunk: bytes) -> None:
        """Keep the next part of the body."""
        self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        """Mark the answer as complete, unless it is an interim answer (1xx), which the real answer
        follows.
        """
        if self._status >= 200:
            self._complete = True
            self.reusable = self._parser.should_keep_alive()
        elif self._status != 101:
            self._fields = []
            self._head_ended = False

    def _reply(self) -> HttpReply:
        headers, fields, chunks = self._headers, self._fields, self._chunks
        # Nothing of it stays here: a connection may be idle for long, and there are thousands.
        self._headers, self._fields, self._chunks = {}, [], []
        if self._bodiless:
            # Whatever came, it is none.
            chunks = []
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if body and "content-encoding" in headers:
            body = decoded(body, headers["content-encoding"], self._body_limit)
        body = body[: self._body_limit]
        if "set-cookie" not in headers:
            return HttpReply(self._status, body, headers)
        lines = [
            value.decode("utf-8", "surrogateescape")
            for name, value in fields
            if name.lower() == b"set-cookie"
        ]
        return HttpReply(self._status, body, headers, parse_set_cookies(lines))


def decoded(body: bytes, codings: str, limit: int | None = None) -> bytes:
    """Return `body` decompressed; with `limit`, about its first `limit` bytes.

    Raises `Malformed`: the body cannot be decompressed, or is too long when there is no `limit`.
    """
    for coding in reversed([name.strip().lower() for name in codings.split(",")]):
        if coding in _FOREIGN_COMPRESSIONS:
            raise Malformed(f"its content-encoding is {coding}, which was not requested")
        # Anything else (`identity`, a character set) is no compression.
        if coding in _COMPRESSIONS:
            body = _inflated(body, coding, limit)
    return body


def _inflated(body: bytes, coding: str, limit: int | None) -> bytes:
    if coding == "deflate":
        # By the book a zlib stream; some send a bare one. The first byte of the former says 8.
        wbits = zlib.MAX_WBITS if body[0] & 15 == 8 else -zlib.MAX_WBITS
    else:
        wbits = zlib.MAX_WBITS | 16
    parts: list[bytes] = []
    room = MOST_BODY_BYTES if limit is None else limit
    try:
        while body:
            inflater = zlib.decompressobj(wbits)
            parts.append(inflater.decompress(body, room + 1))
            room -= len(parts[-1])
            if limit is not None and (room <= 0 or not inflater.eof):
                break  # what comes first is all that was asked for
            if room < 0:
                raise Malformed(f"its {coding} body is longer than {MOST_BODY_BYTES} bytes")
            if not inflater.eof:
                raise Malformed(f"its {coding} body is cut off")
            # A gzip file may have several members.
            body = inflater.unused_data if wbits > zlib.MAX_WBITS else b""
    except zlib.error as error:
        raise Malformed(f"its {coding} body is broken: {error}") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _why(error: HttpParserError, data: bytes) -> Malformed:
    if isinstance(error.__context__, Malformed):
        return error.__context__
    return Malformed(f"{error}; it reads {data[:60]!r}")
