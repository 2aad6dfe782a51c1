"""Questions with a search tool: what the tools answer, and which letter was chosen."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError
from verifying import said, verify

from palestra.errors import ConfigError, CredentialsRejected, InfraError
from palestra.resources_servers.google_search.app import (
    GoogleSearchConfig,
    GoogleSearchServer,
    first_words,
)
from palestra.resources_servers.google_search.pages import page_text
from palestra.resources_servers.google_search.web import (
    GoogleSearch,
    PageUnavailable,
    check_public,
    public_addresses,
)
from palestra.sandbox import open_workers
from palestra.transport import HttpClient, ServerClient, Target


def server(**settings: Any) -> GoogleSearchServer:
    config = GoogleSearchConfig.model_validate({"name": "under_test", **settings})
    return GoogleSearchServer(config=config, server_client=ServerClient({}, HttpClient()))


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """What the model reads of a tool call."""
    made = server()
    target = Target("under_test", "resources_servers", local=made)
    client = ServerClient({"under_test": target}, HttpClient())

    async def run() -> str:
        await made.start()
        said = await client.peer("under_test").call_tool(name, arguments)
        await made.stop()
        return said

    answer: dict[str, Any] = json.loads(asyncio.run(run()))
    return answer


def results(query: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(call("search", query=query)["search_results"])["items"]
    return found


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Who built the Copper Bridge?", "The Copper Bridge"),
        ("lantern festival", "The lantern festival"),
        ("sunday TRAINS narrow-gauge", "Orrin Vale railway station"),
    ],
)
def test_the_best_page_comes_first(query: str, first: str) -> None:
    assert results(query)[0]["title"] == first


def test_words_of_no_page_find_nothing() -> None:
    assert results("zymurgy") == results("") == results("?!") == []


def test_a_result_can_be_browsed_and_another_address_is_told_to_be_none() -> None:
    link = results("architect")[0]["link"]

    assert "Maud Ellery" in call("browse", url=link.upper() + "/#top")["page_content"]
    assert "no page at" in call("browse", url="https://nowhere.example")["error"]


@pytest.mark.parametrize(
    ("text", "letter", "reward"),
    [
        (r"\boxed{B}", "B", 1.0),
        (r"\boxed{A} no: \boxed{\text{b}}", "B", 1.0),
        (r"\boxed{C}", "C", 0.0),
        ("B", None, 0.0),
        ("", None, 0.0),
    ],
)
def test_the_boxed_letter_is_graded(text: str, letter: str | None, reward: float) -> None:
    result = verify(server(), {"expected_answer": "B"}, said(text))

    assert (result["parsed_option"], result["reward"]) == (letter, reward)


@pytest.mark.parametrize("line", ['{"url": "x"}', "no JSON\n", "[]"])
def test_an_index_that_is_none_is_refused_at_the_start(tmp_path: Path, line: str) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_text(line)

    with pytest.raises(ConfigError, match=r"pages\.jsonl line 1 is not a page"):
        asyncio.run(server(index_fpath=str(path)).start())
    with pytest.raises(ConfigError, match="does not exist"):
        asyncio.run(server(index_fpath=str(tmp_path / "other")).start())


def test_google_without_a_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="google_api_key"):
        GoogleSearchConfig(backend="google")


def test_a_page_is_read_as_what_it_shows() -> None:
    page = "<html><head><title>t</title><body><nav>menu</nav><p>One &amp;\n two<script>x()</script><p>three"

    assert page_text(page.encode(), "text/html") == "One &\ntwo\nthree"
    assert page_text(b"\xff plain", "text/plain") == "\ufffd plain"
    assert "application/pdf" in page_text(b"%PDF", "application/pdf")
    assert first_words("a  b c", 2) == "a  b"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]:8000/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.8/x",
        "http://user@192.168.1.1/",
        "file:///etc/passwd",
        "ftp://example.com",
        "http://",
        "http://[",
        "no URL",
        "",
    ],
)
def test_only_public_addresses_of_the_web_can_be_browsed(url: str) -> None:
    with pytest.raises(PageUnavailable):
        check_public(url)


@pytest.mark.parametrize("name", ["localhost", "127.1", "0x7f000001"])
def test_a_name_of_this_machine_does_not_resolve(name: str) -> None:
    with pytest.raises(OSError, match=r"."):
        asyncio.run(public_addresses(name, 80))


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def google(handler: Handler, work: Callable[[GoogleSearch], Awaitable[Any]]) -> Any:
    """`work` with a back end whose API is `handler`."""

    async def run() -> Any:
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        url = f"http://127.0.0.1:{port}/v1"
        settings: Any = {"key": "k", "engine": "e", "most_results": 3, "timeout_s": 5}
        backend = GoogleSearch(open_workers(), url=url, **settings, wait_s=0.0)
        try:
            return await work(backend)
        finally:
            await backend.close()
            await runner.cleanup()

    return asyncio.run(run())


def test_google_is_asked_with_key_and_engine_and_its_items_are_results() -> None:
    asked: list[Any] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        return web.json_response({"items": [{"title": "T", "link": "L", "snippet": "S"}, "odd"]})

    found = google(handler, lambda backend: backend.search("a & b"))

    assert [(r.title, r.link, r.snippet) for r in found] == [("T", "L", "S")]
    assert asked == [{"key": "k", "cx": "e", "num": "3", "q": "a & b"}]


@pytest.mark.parametrize(
    ("status", "error"), [(403, CredentialsRejected), (503, InfraError), (200, InfraError)]
)
def test_a_search_that_cannot_be_made_is_no_answer_of_the_tool(status: int, error: Any) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="no JSON")

    with pytest.raises(error) as caught:
        google(handler, lambda backend: backend.search("x"))
    assert "key=k" not in str(caught.value)


def test_a_page_of_this_machine_is_not_fetched_by_the_web_back_end() -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        pytest.fail("it was fetched")

    def browse(backend: GoogleSearch) -> Awaitable[str]:
        return backend.browse(backend._url.replace("127.0.0.1", "localhost"))

    with pytest.raises(PageUnavailable, match="ConnectionFailed"):
        google(handler, browse)
