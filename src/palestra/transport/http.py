"""The seam before the HTTP client: one request in, one answer or one error out.

`palestra.transport.h1` is the client. Tests and local models put others in its place.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from palestra.errors import InfraError, KnownCause, WrongSetting

CONNECTOR_LIMIT = 102_400
"""Exchanges under way at once in one process, all hosts together."""


class ConnectionFailed(InfraError):
    """No answer came. `sent` tells whether the server may have acted on the request."""

    def __init__(self, message: str, *, sent: bool, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


class RequestRefused(InfraError):
    """It cannot be sent as it is, now or later: its method or one of its headers is not HTTP."""


class WrongUrl(WrongSetting):
    """What it is to be sent to is no URL: no retry can help, nor can another row."""

    cause = KnownCause.BAD_VALUE

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="it must look like http://host:port/v1")


class CertificateRejected(WrongSetting):
    """The certificate of an HTTPS server cannot be verified: the next attempt would fail the same."""

    cause = KnownCause.TLS

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="set SSL_CERT_FILE to the certificate of its authority, or correct the URL's host",
        )


# Structs, not dataclasses: a frozen dataclass takes ten times as long to make (1 us against 0.1),
# and there are two of them in every exchange.


class HttpRequest(msgspec.Struct, frozen=True):
    """One request. The transport adds `host`, the length of the body, and the Cookie header."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    cookies: Mapping[str, str] | None = None
    timeout_s: float | None = None
    """How long the whole exchange may take, the connecting included; None is for ever."""
    repeatable: bool = False
    """Whether its caller would send it twice rather than lose it. Methods that are idempotent by
    HTTP need not say so."""
    direct: bool = False
    """Whether it never goes through a proxy: a call within the fleet."""
    body_limit: int | None = None
    """Bytes of the answer's body after which the rest is not read; None reads all."""


class HttpReply(msgspec.Struct, frozen=True):
    """One answer, whatever its status; header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    cookies: Mapping[str, str] = {}


class HttpTransport(Protocol):
    """Send one request, get one answer."""

    async def send(self, request: HttpRequest, /) -> HttpReply:
        """Raises `ConnectionFailed` when no answer came, `DeadlineExceeded` after `timeout_s`,
        and `RequestRefused` or `WrongUrl` before anything is sent.
        """

    async def aclose(self) -> None:
        """Close every connection."""


def cookie_header(cookies: Mapping[str, str]) -> str:
    """A Cookie header's value."""
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def parse_set_cookies(values: list[str]) -> dict[str, str]:
    """Names and values of Set-Cookie headers, read as RFC 6265 section 5.2 tells a client to.

    What stands in front of the first semicolon counts; without a name or an `=` it is skipped.
    Quotation marks around a value are taken off.
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
