"""Search backends: a Protocol, an offline index that needs no network, and the open web.

When a page is not available, the model gets an error text from the tool. When a search fails, the
environment fails: the model must not be scored for it.

The web is Google's Custom Search JSON API, plus pages fetched from their own sites. The model
chooses the addresses. So every connection goes to a public address, also after a redirect; a name
is resolved and checked at that moment. At most `MOST_BYTES` of a page are read.
"""

import asyncio
import ipaddress
import math
import random
import re
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol, final
from urllib.parse import urljoin, urlsplit

import orjson
from yarl import URL

from palestra.errors import CallError, ConfigError, CredentialsRejected, InfraError
from palestra.sandbox import Returned, Workers
from palestra.schema import JsonObject, read_jsonl
from palestra.transport import HttpClient, HttpReply, HttpRequest

SNIPPET_CHARS = 240
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Found:
    """One search result."""

    title: str
    link: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of an index."""

    url: str
    title: str
    text: str


class PageUnavailable(Exception):
    """Raised when a page is not available; the model reads the message."""


class SearchBackend(Protocol):
    """A backend that searches for pages and reads them."""

    async def search(self, query: str, /) -> Sequence[Found]:
        """Return search results, best first. Raises `CallError`: the search failed."""
        ...

    async def browse(self, url: str, /) -> str:
        """Return the text of a page. Raises PageUnavailable: it cannot be read."""
        ...

    async def close(self) -> None:
        """Close connections and processes."""
        ...


@final
class OfflineIndex:
    """An index of pages in memory, ranked by BM25."""

    def __init__(self, pages: Iterable[Page], *, most_results: int) -> None:
        self._pages = list(pages)
        self._by_url = {_address(page.url): page for page in self._pages}
        self._most_results = most_results
        self._postings: Mapping[str, list[tuple[int, int]]] = _postings(self._pages)
        self._lengths = [len(_words(page)) for page in self._pages]
        self._average = sum(self._lengths) / max(len(self._lengths), 1)

    @classmethod
    def read(cls, path: Path, *, most_results: int) -> "OfflineIndex":
        """Read an index from a file of pages, one JSON object per line: `url`, `title`, `text`.

        Raises ConfigError: the file does not exist, or a line is not a page; it names the first
        such line.
        """
        if not path.is_file():
            raise ConfigError(f"{path} does not exist", hint="set index_fpath to a file of pages")
        pages = []
        for line in read_jsonl(path):
            line_fields = line.row if isinstance(line.row, dict) else {}
            fields = [line_fields.get(name) for name in ("url", "title", "text")]
            if line.error or not all(isinstance(field, str) for field in fields):
                raise ConfigError(
                    f"{path} line {line.number} is not a page",
                    hint='each line must be {"url": …, "title": …, "text": …}',
                )
            pages.append(Page(*map(str, fields)))
        return cls(pages, most_results=most_results)

    async def search(self, query: str) -> Sequence[Found]:
        """Return pages that share words with the query, best first."""
        scores: dict[int, float] = defaultdict(float)
        for word in set(_WORD.findall(query[:1_000].casefold())):
            postings = self._postings.get(word, [])
            rarity = math.log(1 + (len(self._pages) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, times in postings:
                share = self._lengths[number] / self._average
                scores[number] += rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * share))
        best = sorted(scores, key=lambda number: (-scores[number], number))[: self._most_results]
        return [_found_page(self._pages[number]) for number in best]

    async def browse(self, url: str) -> str:
        """Return the text of a page of the index."""
        page = self._by_url.get(_address(url))
        if page is None:
            raise PageUnavailable(f"there is no page at {url[:200]}")
        return f"{page.title}\n\n{page.text}"

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _found_page(page: Page) -> Found:
    return Found(page.title, page.url, page.text[:SNIPPET_CHARS])


def _address(url: str) -> str:
    """Reduce a URL for comparison: no scheme, no fragment, no last slash, lower case."""
    return url.strip().partition("://")[2].partition("#")[0].rstrip("/").casefold()


def _words(page: Page) -> list[str]:
    return _WORD.findall(f"{page.title} {page.text}".casefold())


def _postings(pages: Sequence[Page]) -> dict[str, list[tuple[int, int]]]:
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, page in enumerate(pages):
        for word, times in Counter(_words(page)).items():
            postings[word].append((number, times))
    return dict(postings)


MOST_BYTES: Final = 2_000_000
MOST_REDIRECTS: Final = 5
READING_LIMIT_S: Final = 10.0
ATTEMPTS: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REJECTED: Final = frozenset({400, 401, 403})
_PAGE_TEXT: Final = "palestra.resources_servers.google_search.pages:page_text"


@final
class GoogleSearch:
    """The web backend. A search needs a key and an engine id; browsing needs neither.

    Each request has a timeout of `timeout_s`. A failed search is retried after about `wait_s`, then
    twice that.
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
        """Search with Google. Raises CredentialsRejected: the API rejects the request. Raises
        InfraError: every attempt failed.
        """
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
                        hint="check google_api_key and google_cx in the environment's config",
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
        """Fetch a public page and return its text. Raises PageUnavailable: it cannot be read."""
        try:
            kind, body = await self._fetch(url)
        except (CallError, ValueError) as error:
            raise PageUnavailable(
                f"the page could not be fetched ({type(error).__name__})"
            ) from error
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
        """Close the connections and stop the worker processes."""
        await self._workers.close()
        await self._searching.aclose()
        await self._browsing.aclose()


async def public_addresses(host: str, port: int) -> list[str]:
    """Resolve a host to the addresses to connect to.

    Raises OSError: one of the addresses is not public.
    """
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in entries]
    if not all(ipaddress.ip_address(address).is_global for address in addresses):
        raise OSError(f"{host} is not a public address")
    return addresses


def check_public(url: str) -> None:
    """Raise PageUnavailable when `url` is not an http(s) URL, or names an address that is not
    public.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise PageUnavailable("that is not a URL") from None
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
        payload = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InfraError(f"the answer of the search API is not JSON: {error}") from None
    items = payload.get("items") if isinstance(payload, Mapping) else None
    return [_listed_page(item) for item in items or () if isinstance(item, Mapping)]


def _listed_page(item: JsonObject) -> Found:
    return Found(*(str(item.get(name) or "") for name in ("title", "link", "snippet")))
