"""`GoogleSearchServer`: multiple choice questions that the model may research before it answers.

The model has two tools: search and browse.
"""

import asyncio
import re
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr, model_validator

from palestra.config import PACKAGE_ROOT, resolve_path
from palestra.metrics import compute_pass_majority_metrics
from palestra.resources_servers.google_search.web import (
    OfflineIndex,
    PageUnavailable,
    SearchBackend,
)
from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.mcqa.grammars import lenient_boxed
from palestra.sandbox import open_workers
from palestra.schema import (
    JsonDict,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    encode_json,
    response_of,
)
from palestra.server import ResourcesServerConfig, tool


class GoogleSearchConfig(ResourcesServerConfig):
    """The settings of the environment."""

    backend: Literal["offline", "google"] = "offline"
    """`offline`: search the pages of `index_fpath`. `google`: the Custom Search JSON API and the
    web."""

    index_fpath: str = "resources_servers/google_search/data/pages.jsonl"
    """The file of pages, one JSON object per line: `url`, `title`, `text`."""

    google_api_key: str = ""
    google_cx: str = ""
    """The id of the search engine that belongs to the key."""

    google_search_url: str = "https://www.googleapis.com/customsearch/v1"
    most_results: int = Field(default=10, ge=1)
    most_page_words: int = Field(default=10_000, ge=1)
    request_timeout_s: float = Field(default=30.0, gt=0)

    @model_validator(mode="after")
    def _google_has_a_key(self) -> "GoogleSearchConfig":
        if self.backend == "google" and not (self.google_api_key and self.google_cx):
            raise ValueError("the backend google needs the settings google_api_key and google_cx")
        return self


class GoogleSearchVerifyRequest(VerifyRequest):
    """The fields that a row needs for its answer to be verified."""

    expected_answer: str
    """The letter of the right option."""


class GoogleSearchServer(AttemptsServer):
    """A resources server that verifies the letter in the last box of the last message."""

    has_majority: ClassVar[bool] = True
    repeatable: ClassVar[bool | None] = True

    config: GoogleSearchConfig

    _backend: SearchBackend | None = PrivateAttr(default=None)

    async def start(self) -> None:
        """Open the search backend. Raises ConfigError: the index file cannot be read."""
        await self._searched()

    async def stop(self) -> None:
        """Close the search backend."""
        if self._backend is not None:
            await self._backend.close()

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the right letter in a box; searching is optional."""
        return response_of(f"\\boxed{{{row['expected_answer']}}}")

    @tool
    async def search(self, query: str) -> str:
        """Search Google for a query and return up to 10 search results.

        query: The term to search for
        """
        results = await (await self._searched()).search(query)
        items = encode_json({"items": [asdict(result) for result in results]}).decode()
        return encode_json({"search_results": items}).decode()

    @tool
    async def browse(self, url: str) -> str:
        """Returns the cleaned content of a webpage, truncated if it is too long.

        url: The url of the page to get the content of
        """
        try:
            text = await (await self._searched()).browse(url)
        except PageUnavailable as error:
            return encode_json({"error": str(error)}).decode()
        content = first_words(text, self.config.most_page_words)
        return encode_json({"page_content": content}).decode()

    async def verify(self, body: GoogleSearchVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the boxed letter is `expected_answer`; else 0.0."""
        chosen = lenient_boxed(body.response.final_text, {})
        right = chosen == body.expected_answer.strip().upper()
        return self.reply(body, float(right), parsed_option=chosen)

    async def _searched(self) -> SearchBackend:
        if self._backend is None:
            self._backend = await self._opened()
        return self._backend

    async def _opened(self) -> SearchBackend:
        config = self.config
        if config.backend == "google":
            from palestra.resources_servers.google_search.web import GoogleSearch

            return GoogleSearch(
                open_workers(),
                url=config.google_search_url,
                key=config.google_api_key,
                engine=config.google_cx,
                most_results=config.most_results,
                timeout_s=config.request_timeout_s,
            )
        path = resolve_path(config.index_fpath, Path.cwd(), PACKAGE_ROOT)
        return await asyncio.to_thread(OfflineIndex.read, path, most_results=config.most_results)

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """Compute pass@k, its averages, and majority@k over the chosen letters, in percent."""
        scored = [
            [{**row, "extracted_answer": row.get("parsed_option")} for row in t] for t in tasks
        ]
        return compute_pass_majority_metrics(scored)


def first_words(text: str, limit: int) -> str:
    """Return the first `limit` words of a text."""
    for number, word in enumerate(re.finditer(r"\S+", text), start=1):
        if number == limit:
            return text[: word.end()]
    return text
