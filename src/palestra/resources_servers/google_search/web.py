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

import orjson
from yarl import URL

from palestra.errors import CallError, CredentialsRejected, InfraError
from palestra.resources_servers.google_search.backends import Found, PageUnavailable
from palestra.sandbox import Returned, Workers
from palestra.transport import HttpClient, HttpReply, HttpRequest

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
        self._timeout_s = timeout_s
        self._searching = HttpClient()
        self._browsing = HttpClient(resolve=public_addresses)

    async def search(self, query: str) -> Sequence[Found]:
        """Raises CredentialsRejected, or InfraError after some attempts."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                reply = await self._get(self._searching, self._search_url(query))
            except CallError as error:
                why = type(error).__name__  # its text would tell the key
            else:
                if reply.status == HTTPStatus.OK:
                    return _results(reply.body)
                why = f"status {reply.status}"
                if reply.status in _REJECTED:
                    raise CredentialsRejected(
                        f"the search API rejects the request: {why}",
                        hint="google_api_key and google_cx in the environment's config",
                    )
            if attempt < ATTEMPTS:
                await asyncio.sleep(self._wait_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        raise InfraError(f"the search API gave no results in {ATTEMPTS} attempts: {why}")

    def _search_url(self, query: str) -> str:
        return str(URL(self._url).extend_query({**self._params, "q": query[:2_000]}))

    async def _get(self, client: HttpClient, url: str) -> HttpReply:
        request = HttpRequest("GET", url, timeout_s=self._timeout_s, body_limit=MOST_BYTES)
        return await client.send(request)

    async def browse(self, url: str) -> str:
        """Raises PageUnavailable."""
        try:
            kind, body = await self._fetch(url)
        except (CallError, ValueError) as error:
            raise PageUnavailable(f"no page came from there ({type(error).__name__})") from error
        outcome = await self._workers.call(_PAGE_TEXT, body, kind, limit_s=READING_LIMIT_S)
        if not isinstance(outcome, Returned):
            raise PageUnavailable("the page cannot be read as text")
        return str(outcome.value)

    async def _fetch(self, url: str) -> tuple[str, bytes]:
        for _ in range(MOST_REDIRECTS):
            check_public(url)
            reply = await self._get(self._browsing, url)
            if reply.status in _REDIRECTS and "location" in reply.headers:
                url = urljoin(url, reply.headers["location"])
                continue
            if reply.status != HTTPStatus.OK:
                raise PageUnavailable(f"the page answers with status {reply.status}")
            kind = reply.headers.get("content-type", "application/octet-stream")
            return kind.partition(";")[0].strip().lower(), reply.body
        raise PageUnavailable("the page redirects without end")

    async def close(self) -> None:
        """Close the connections, and end the processes."""
        await self._workers.close()
        await self._searching.aclose()
        await self._browsing.aclose()


async def public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a name, which are then those connected to. Raises OSError for a name of
    this network.
    """
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in entries]
    if not all(ipaddress.ip_address(address).is_global for address in addresses):
        raise OSError(f"{host} is no public address")
    return addresses


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


def _results(body: bytes) -> list[Found]:
    try:
        held = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InfraError(f"the search API answered what is no JSON: {error}") from None
    items = held.get("items") if isinstance(held, Mapping) else None
    return [_found(item) for item in items or () if isinstance(item, Mapping)]


def _found(item: Mapping[str, Any]) -> Found:
    return Found(*(str(item.get(name) or "") for name in ("title", "link", "snippet")))
