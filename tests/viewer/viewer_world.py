"""A viewer in this process, over runs on disk, and requests to it as a browser makes them."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.types import ASGIApp

from palestra.viewer import Catalog, Viewer, find_places
from palestra.viewer.access import Access
from palestra.viewer.app import make_app

TOKEN = "token-of-this-start"
HOST = "127.0.0.1:7717"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class World:
    """One viewer. `get` asks it with all that a request needs."""

    app: ASGIApp
    catalog: Catalog

    def get(self, path: str, /, **parameters: Any) -> Any:
        """The reply of an endpoint. `RUN` in the path is the only run."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        answer = self.ask(path.replace("RUN", self.run_id) + query)
        assert answer.status == 200, answer.body
        return answer.json

    def ask(self, path: str, method: str = "GET", **headers: str | None) -> Answer:
        """The answer to one request. A header that is None is left out."""
        usual = {"host": HOST, "authorization": f"Bearer {TOKEN}"}
        chosen = usual | {name.replace("_", "-"): value for name, value in headers.items()}
        sent = [(n.encode(), v.encode("latin-1")) for n, v in chosen.items() if v is not None]
        return asyncio.run(_answer(self.app, method, path, sent))

    @property
    def run_id(self) -> str:
        return self.catalog.places[0].id


async def _answer(app: ASGIApp, method: str, path: str, headers: list[Any]) -> Answer:
    name, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": name,
        "raw_path": name.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 7717),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    messages: list[Any] = []
    request = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Any:
        message = next(request, None)
        if message is None:
            await asyncio.Event().wait()  # the page stays
        return message

    async def send(message: Any) -> None:
        messages.append(message)

    async with asyncio.timeout(20):
        await app(scope, receive, send)
    start = messages[0]
    body = b"".join(m.get("body", b"") for m in messages[1:])
    return Answer(start["status"], {n.decode(): v.decode() for n, v in start["headers"]}, body)


@contextmanager
def viewing(*paths: Path, cache: Path, **options: Any) -> Iterator[World]:
    """A viewer over `paths`, all of them indexed."""
    places = find_places([str(path) for path in paths])
    with Catalog(places, cache=cache, **options) as catalog:
        for place in places.runs:
            catalog.run(place.id).wait()
        with closing(make_app(Viewer(catalog), Access(TOKEN))) as app:
            yield World(app, catalog)
