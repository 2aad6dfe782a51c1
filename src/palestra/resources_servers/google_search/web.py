"""The open web: Google's Custom Search JSON API, and pages fetched from where they are.

The model chooses the addresses. So only public ones are connected to, whatever a name resolves to
at that moment and wherever a redirect leads; and of a page only so much is read.
"""

import asyncio
import ipaddress
import random
import socket
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, final
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from palestra.errors import CredentialsRejected, InfraError
from palestra.resources_servers.google_search.backends import Found, PageUnavailable
from palestra.sandbox import Returned, Workers

MOST_BYTES: Final = 2_000_000
MOST_REDIRECTS: Final = 5
READING_LIMIT_S: Final = 10.0
ATTEMPTS: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REJECTED: Final = frozenset({400, 401, 403})
_PAGE_TEXT: Final = "palestra.resources_servers.google_search.pages:page_text"


@final
class GoogleSearch:
    """Searches with a key and an engine id; browses without.

    Each request may take `timeout_s`. A search is tried again after about `wait_s`, then twice that.
    """

    def __init__(
        self,
        workers: Workers,
        *,
        url: str,
        key: str,
        engine: str,
        most_results: int,
        timeout_s: float,
        wait_s: float = 1.0,
    ) -> None:
        self._workers = workers
        self._wait_s = wait_s
        self._url = url
        self._params = {"key": key, "cx": engine, "num": str(min(most_results, 10))}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._searching: aiohttp.ClientSession | None = None
        self._browsing: aiohttp.ClientSession | None = None

    async def search(self, query: str) -> Sequence[Found]:
        """Raises CredentialsRejected, or InfraError after some attempts."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, body = await self._ask(query)
            except (aiohttp.ClientError, TimeoutError) as error:
                why = type(error).__name__  # its text would tell the key
            else:
                if status == HTTPStatus.OK:
                    return _results(body)
                why = f"status {status}"
                if status in _REJECTED:
                    raise CredentialsRejected(
                        f"the search API rejects the request: {why}",
                        hint="google_api_key and google_cx in the environment's config",
                    )
            if attempt < ATTEMPTS:
                await asyncio.sleep(self._wait_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        raise InfraError(f"the search API gave no results in {ATTEMPTS} attempts: {why}")

    async def _ask(self, query: str) -> tuple[int, bytes]:
        if self._searching is None:
            self._searching = aiohttp.ClientSession(timeout=self._timeout)
        params = {**self._params, "q": query[:2_000]}
        async with self._searching.get(self._url, params=params) as reply:
            return reply.status, await reply.content.read(MOST_BYTES)

    async def browse(self, url: str) -> str:
        """Raises PageUnavailable."""
        try:
            kind, body = await self._fetch(url)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise PageUnavailable(f"no page came from there ({type(error).__name__})") from error
        outcome = await self._workers.call(_PAGE_TEXT, body, kind, limit_s=READING_LIMIT_S)
        if not isinstance(outcome, Returned):
            raise PageUnavailable("the page cannot be read as text")
        return str(outcome.value)

    async def _fetch(self, url: str) -> tuple[str, bytes]:
        if self._browsing is None:
            connector = aiohttp.TCPConnector(resolver=PublicResolver())
            self._browsing = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        for _ in range(MOST_REDIRECTS):
            check_public(url)
            async with self._browsing.get(url, allow_redirects=False) as reply:
                if reply.status in _REDIRECTS and "location" in reply.headers:
                    url = urljoin(url, reply.headers["location"])
                    continue
                if reply.status != HTTPStatus.OK:
                    raise PageUnavailable(f"the page answers with status {reply.status}")
                return reply.content_type, await _read(reply)
        raise PageUnavailable("the page redirects without end")

    async def close(self) -> None:
        """Close the connections, and end the processes."""
        await self._workers.close()
        for session in (self._searching, self._browsing):
            if session is not None:
                await session.close()


@final
class PublicResolver(AbstractResolver):
    """Resolves names to public addresses only, which are then those connected to."""

    def __init__(self) -> None:
        self._inner = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError for a name of this network."""
        found = await self._inner.resolve(host, port, family)
        if not all(ipaddress.ip_address(address["host"]).is_global for address in found):
            raise OSError(f"{host} is no public address")
        return found

    async def close(self) -> None:
        """Close the resolver behind."""
        await self._inner.close()


def check_public(url: str) -> None:
    """Raise PageUnavailable for what is no URL of the web, or names an address of this network."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise PageUnavailable("that is no URL") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise PageUnavailable("only http and https URLs can be browsed")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # Spellings that systems take for an address, such as 127.1, resolve to it or to nothing.
        return
    if not address.is_global:
        raise PageUnavailable("that address is not public")


async def _read(reply: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in reply.content.iter_chunked(65_536):
        body += chunk
        if len(body) >= MOST_BYTES:
            break
    return bytes(body[:MOST_BYTES])


def _results(body: bytes) -> list[Found]:
    try:
        held = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InfraError(f"the search API answered what is no JSON: {error}") from None
    items = held.get("items") if isinstance(held, Mapping) else None
    return [_found(item) for item in items or () if isinstance(item, Mapping)]


def _found(item: Mapping[str, Any]) -> Found:
    return Found(*(str(item.get(name) or "") for name in ("title", "link", "snippet")))
