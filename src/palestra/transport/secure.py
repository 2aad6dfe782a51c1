"""aiohttp, for what needs TLS. Everything it can raise is translated here, once."""

import asyncio
import io
import os
from typing import Any, final

import aiohttp

from palestra.errors import DeadlineExceeded
from palestra.transport.http import (
    CONNECTOR_LIMIT,
    ConnectionFailed,
    HttpReply,
    HttpRequest,
    RequestRefused,
    WrongUrl,
    cookie_header,
)

CONNECTOR_LIMIT_PER_HOST = 1024

_LARGE_BODY_BYTES = 1 << 20
"""From here on aiohttp wants a file, which it writes piece by piece."""


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

    async def send(self, request: HttpRequest, /) -> HttpReply:
        url, timeout_s = request.url, request.timeout_s
        headers = dict(request.headers)
        if request.cookies:
            headers["Cookie"] = cookie_header(request.cookies)
        body: bytes | io.BytesIO | None = request.body
        if isinstance(body, bytes) and len(body) >= _LARGE_BODY_BYTES:
            body = io.BytesIO(body)
        try:
            async with (
                asyncio.timeout(timeout_s) as limit,
                self._open().request(
                    request.method, url, data=body, headers=headers, allow_redirects=False
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
            raise WrongUrl(f"{url!r} is not a URL of HTTP") from error
        except ValueError as error:
            # A line break in a header, credentials twice, what no encoding can say.
            raise RequestRefused(f"{url}: {error}") from error
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
