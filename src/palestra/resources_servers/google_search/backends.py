"""Where searches go: one Protocol, and the back end that needs no network.

A page that cannot be had is an answer of the tool, which the model reads. A search that cannot be
made is a failure of the environment: the model must not be scored for it.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

from palestra.errors import ConfigError
from palestra.schema import read_jsonl

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
    """The page cannot be had; the message is for the model."""


class SearchBackend(Protocol):
    """Finds pages and reads them."""

    async def search(self, query: str, /) -> Sequence[Found]:
        """The best results first. Raises `CallError` when the search could not be made."""
        ...

    async def browse(self, url: str, /) -> str:
        """The text of a page. Raises PageUnavailable."""
        ...

    async def close(self) -> None:
        """Release what it holds."""
        ...


@final
class OfflineIndex:
    """Pages in memory, ranked by BM25."""

    def __init__(self, pages: Iterable[Page], *, most_results: int) -> None:
        self._pages = list(pages)
        self._by_url = {_address(page.url): page for page in self._pages}
        self._most_results = most_results
        self._postings: Mapping[str, list[tuple[int, int]]] = _postings(self._pages)
        self._lengths = [len(_words(page)) for page in self._pages]
        self._average = sum(self._lengths) / max(len(self._lengths), 1)

    @classmethod
    def read(cls, path: Path, *, most_results: int) -> "OfflineIndex":
        """The index of a file of pages, one JSON object a line: `url`, `title`, `text`.

        Raises ConfigError naming the first line that is none.
        """
        if not path.is_file():
            raise ConfigError(f"{path} does not exist", hint="index_fpath names a file of pages")
        pages = []
        for line in read_jsonl(path):
            held = line.row if isinstance(line.row, dict) else {}
            fields = [held.get(name) for name in ("url", "title", "text")]
            if line.error or not all(isinstance(field, str) for field in fields):
                raise ConfigError(
                    f"{path}:{line.number} is no page", hint='{"url": …, "title": …, "text": …}'
                )
            pages.append(Page(*map(str, fields)))
        return cls(pages, most_results=most_results)

    async def search(self, query: str) -> Sequence[Found]:
        """Pages that share words with the query."""
        scores: dict[int, float] = defaultdict(float)
        for word in set(_WORD.findall(query[:1_000].casefold())):
            postings = self._postings.get(word, [])
            rarity = math.log(1 + (len(self._pages) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, times in postings:
                share = self._lengths[number] / self._average
                scores[number] += rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * share))
        best = sorted(scores, key=lambda number: (-scores[number], number))[: self._most_results]
        return [_found(self._pages[number]) for number in best]

    async def browse(self, url: str) -> str:
        """The text of a page of the index."""
        page = self._by_url.get(_address(url))
        if page is None:
            raise PageUnavailable(f"there is no page at {url[:200]}")
        return f"{page.title}\n\n{page.text}"

    async def close(self) -> None:
        """Nothing to release."""


def _found(page: Page) -> Found:
    return Found(page.title, page.url, page.text[:SNIPPET_CHARS])


def _address(url: str) -> str:
    """A URL as addresses are compared: without scheme, fragment and last slash."""
    return url.strip().partition("://")[2].partition("#")[0].rstrip("/").casefold()


def _words(page: Page) -> list[str]:
    return _WORD.findall(f"{page.title} {page.text}".casefold())


def _postings(pages: Sequence[Page]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, page in enumerate(pages):
        for word, times in Counter(_words(page)).items():
            found[word].append((number, times))
    return dict(found)
