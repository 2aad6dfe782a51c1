"""The one place that touches an HTTP client.

`HttpTransport` is the seam; `AiohttpTransport` is what stands behind it. Everything a client
library can raise is translated here, once.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol, final

import aiohttp

from palestra.errors import DeadlineExceeded, InfraError, WrongSetting

CONNECTOR_LIMIT = 102_400
CONNECTOR_LIMIT_PER_HOST = 1024


class ConnectionFailed(InfraError):
    """No answer came. `sent` tells whether the server may have acted on the request."""

    def __init__(self, message: str, *, sent: bool, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class HttpReply:
    """One answer, whatever its status; header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)


class HttpTransport(Protocol):
    """Send one request, get one answer."""

    async def send(
        self,
        method: str,
        url: str,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        cookies: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> HttpReply:
        """Raises `ConnectionFailed` when no answer came, `DeadlineExceeded` after `timeout_s`, and
        `WrongSetting` for what is no URL.
        """

    async def aclose(self) -> None:
        """Close every connection."""


def cookie_header(cookies: Mapping[str, str]) -> str:
    """A Cookie header's value."""
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def parse_set_cookies(values: list[str]) -> dict[str, str]:
    """Names and values of Set-Cookie headers; a malformed one is skipped."""
    cookies: dict[str, str] = {}
    for value in values:
        parsed: SimpleCookie = SimpleCookie()
        try:
            parsed.load(value)
        except CookieError:
            continue
        cookies.update({name: morsel.value for name, morsel in parsed.items()})
    return cookies


@final
class AiohttpTransport:
    """aiohttp without a cookie jar: cookies belong to one rollout, never to the process.

    The session is made at the first request, because it binds to the running loop.
    """

    def __init__(
        self,
        *,
        limit: int = CONNECTOR_LIMIT,
        limit_per_host: int = CONNECTOR_LIMIT_PER_HOST,
    ) -> None:
        self._limit = limit
        self._limit_per_host = limit_per_host
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(
                limit=self._limit,
                limit_per_host=self._limit_per_host,
                # Shorter than any of our servers keeps a connection, so that the server never
                # closes one just as a request goes out on it.
                keepalive_timeout=15,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
                auto_decompress=True,
                trust_env=False,
            )
        return self._session

    async def send(
        self,
        method: str,
        url: str,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        cookies: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> HttpReply:
        sent_headers = dict(headers or {})
        if cookies:
            sent_headers["Cookie"] = cookie_header(cookies)
        try:
            async with (
                asyncio.timeout(timeout_s) as limit,
                self._open().request(
                    method, url, data=body, headers=sent_headers, allow_redirects=False
                ) as reply,
            ):
                return HttpReply(
                    status=reply.status,
                    body=await reply.read(),
                    headers=_lower(reply.headers),
                    cookies={name: morsel.value for name, morsel in reply.cookies.items()},
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise ConnectionFailed(f"{url}: no connection within 30 s", sent=False) from error
        except aiohttp.ClientConnectorError as error:
            raise ConnectionFailed(
                f"{url}: {_reason(error)}",
                sent=False,
                hint="is the server running, and is this its address?",
            ) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            # No retry can help, nor can another row.
            raise WrongSetting(
                f"{url!r} is not a URL of HTTP", hint="it must look like http://host:port/v1"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            # Our own timeout is an OSError too, as is the kernel's.
            if limit.expired():
                raise DeadlineExceeded(f"{url}: no answer within {timeout_s:.1f} s") from error
            raise ConnectionFailed(
                f"{url}: the connection broke before the answer came ({_reason(error)})", sent=True
            ) from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _reason(error: BaseException) -> str:
    os_error = getattr(error, "os_error", None) or error
    number = getattr(os_error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return str(getattr(os_error, "strerror", None) or os_error) or type(error).__name__
