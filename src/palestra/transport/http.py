"""The interface to the HTTP client: one request in, one reply or one error out.

`palestra.transport.h1` is the usual client. Tests and local models replace it.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from palestra.errors import InfraError, KnownCause, WrongSetting

CONNECTOR_LIMIT = 102_400
"""The largest number of concurrent exchanges in one process, for all hosts together."""


class ConnectionFailed(InfraError):
    """Error: no reply came. `was_sent`: whether the server may have processed the request."""

    def __init__(self, message: str, *, was_sent: bool, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.was_sent = was_sent


class RequestRefused(InfraError):
    """Error: the request can never be sent, because its method or one of its headers is invalid
    HTTP.
    """


class WrongUrl(WrongSetting):
    """Error: the URL of a request is invalid. Neither a retry nor another row can help."""

    cause = KnownCause.BAD_VALUE

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="it must look like http://host:port/v1")


class CertificateRejected(WrongSetting):
    """Error: the certificate of an HTTPS server cannot be verified. A retry would fail in the same
    way.
    """

    cause = KnownCause.TLS

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="set SSL_CERT_FILE to the certificate of its authority, or correct the URL's host",
        )


# Structs, not dataclasses: a frozen dataclass takes ten times as long to make (1 us against 0.1),
# and there are two of them in every exchange.


class HttpRequest(msgspec.Struct, frozen=True):
    """One request. The transport adds the headers `host`, `content-length` and `cookie`."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    cookies: Mapping[str, str] | None = None
    timeout_s: float | None = None
    """The timeout in seconds of the whole exchange, with connecting; None: no timeout."""
    repeatable: bool = False
    """Whether the request may be sent twice when its fate is unknown. Not needed for methods that
    are idempotent in HTTP."""
    direct: bool = False
    """Whether to use no proxy, as for calls within the fleet."""
    body_limit: int | None = None
    """The number of bytes of the reply's body to read; the rest is ignored. None reads all."""


class HttpReply(msgspec.Struct, frozen=True):
    """One reply, with any status; header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    cookies: Mapping[str, str] = {}


class HttpTransport(Protocol):
    """Sends one request and returns one reply."""

    async def send(self, request: HttpRequest, /) -> HttpReply:
        """Send a request and return the reply.

        Raises `ConnectionFailed`: no reply came. Raises `DeadlineExceeded`: `timeout_s` passed.
        Raises `RequestRefused` or `WrongUrl`: the request is invalid, and nothing was sent.
        """

    async def aclose(self) -> None:
        """Close every connection."""


def cookie_header(cookies: Mapping[str, str]) -> str:
    """Return the value of a Cookie header."""
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def parse_set_cookies(values: list[str]) -> dict[str, str]:
    """Return the names and values of Set-Cookie headers, parsed as in RFC 6265 section 5.2.

    Only the part before the first semicolon counts. A header without a name or an `=` is skipped.
    Quotes around a value are removed.
    """
    cookies: dict[str, str] = {}
    for line in values:
        name, equals, value = line.partition(";")[0].partition("=")
        name, value = name.strip(" \t"), value.strip(" \t")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        if name and equals:
            cookies[name] = value
    return cookies
