"""The viewer's server: a Starlette app that answers the endpoints and the page's own files.

Every answer has the safe headers, errors too. Text of rows leaves only as JSON or as a download.
"""

import asyncio
import importlib
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import resources
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from palestra.analysis import QueryError
from palestra.errors import PalestraError
from palestra.viewer.access import API, SAFE_HEADERS, Access, AccessRefusal
from palestra.viewer.catalog import NoSuchRun
from palestra.viewer.endpoints import ENDPOINTS, ViewerEndpoint
from palestra.viewer.index import RunChanged
from palestra.viewer.pages import (
    about,
    comparison,
    evidence,
    rollout,
    runs,
    selection,
    stored,
    tables,
    tasks,
)
from palestra.viewer.reads import PageLeft, ReadKind, Reads, ReadStop
from palestra.viewer.replies.base import ErrorReply, Reply
from palestra.viewer.replies.runs import Live
from palestra.viewer.requests import NoSuchRow, PageRequest, StillIndexing, Viewer

Answer = Callable[[PageRequest], Reply]


def _later(page: str, name: str) -> Answer:
    """Return an answer of a page that is imported when it is first asked: it needs the code of
    servers, and the first page does not wait for it.
    """

    def answer(request: PageRequest) -> Reply:
        module = importlib.import_module(f"palestra.viewer.pages.{page}")
        reply: Reply = getattr(module, name)(request)
        return reply

    return answer


ANSWERS: Final[Mapping[str, Answer]] = {
    "session": runs.session,
    "runs": runs.runs,
    "run": runs.run,
    "figures": runs.figures,
    "columns": tables.columns,
    "rollouts": tables.rollouts,
    "tasks": tables.tasks,
    "facets": tables.facets,
    "histograms": tables.histograms,
    "task": tasks.task,
    "rollout": rollout.rollout,
    "outline": rollout.outline,
    "item": rollout.item,
    "findInTranscript": rollout.find,
    "reward": evidence.reward,
    "attempts": stored.attempts,
    "times": stored.times,
    "tokens": _later("tokens", "turns"),
    "tokenRange": _later("tokens", "tokens"),
    "raw": stored.raw,
    "tree": stored.tree,
    "commands": stored.commands,
    "diff": _later("differences", "diff"),
    "failures": _later("failures", "failures"),
    "compare": comparison.compare,
    "comparedTasks": comparison.tasks,
    "select": selection.select,
    "cluster": _later("clusters", "cluster"),
    "about": about.about,
}
BYTES: Final[Mapping[str, Callable[[PageRequest], tuple[str, bytes]]]] = {
    "image": rollout.image,
    "download": stored.download,
}
RUN_READS: Final = frozenset(
    {"figures", "failures", "compare", "comparedTasks", "select", "diff", "findInTranscript"}
    | {"tokens", "tokenRange", "task", "tree", "search"}
)
ROW_READS: Final = frozenset(
    {"rollout", "outline", "item", "reward", "raw", "download", "image", "attempts"}
)
LIVE_POLL_S: Final = 1.0
LIVE_AT_LEAST_S: Final = 15.0
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
PAGE_LEFT: Final = 499
VERSION_HEADER: Final = "palestra-index-version"
"""Names the version of the index that the reply of a run rests on at least."""
INDEXING_POLL_S: Final = 0.1
_ASSETS: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_encoder = msgspec.json.Encoder()


def make_app(viewer: Viewer, access: Access) -> "GuardedApp":
    """Return the app of one viewer, to be closed. `access`: who may ask."""
    reads = Reads()
    streams = {
        "liveRuns": partial(_live_runs, reads),
        "live": partial(_live, reads),
        "search": partial(_search, reads),
    }
    routes = [
        Route(endpoint.path, partial(_answer, viewer, reads, streams, endpoint))
        for endpoint in ENDPOINTS
    ]
    routes += [
        Route("/static/{name}", _asset),
        Route(f"{API}{{rest:path}}", _unknown),
        Route("/{rest:path}", _page),
    ]
    return GuardedApp(Starlette(routes=routes), access, reads)


class GuardedApp:
    """Refuses requests before the app sees them, and adds the safe headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access, reads: Reads) -> None:
        self._app, self._access, self._reads = app, access, reads

    def close(self) -> None:
        """End the threads that read."""
        self._reads.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = [(n.decode("latin-1").lower(), v.decode("latin-1")) for n, v in scope["headers"]]
        refusal = self._access.refusal(scope["method"], scope["path"], headers)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                other_headers = [
                    (n, v) for n, v in message["headers"] if n.decode() not in SAFE_HEADERS
                ]
                safe = [(n.encode(), v.encode()) for n, v in SAFE_HEADERS.items()]
                message = {**message, "headers": [*other_headers, *safe]}
            await send(message)

        if refusal is not None:
            await _refused(refusal)(scope, receive, send_safely)
            return
        await self._app(scope, receive, send_safely)


def _refused(refusal: AccessRefusal) -> Response:
    reply = ErrorReply(error="Refused", message=refusal.message)
    headers = {"allow": "GET, HEAD"} if refusal.status == 405 else {}
    return Response(_encoder.encode(reply), refusal.status, headers=headers, media_type=JSON)


async def _answer(
    viewer: Viewer,
    reads: Reads,
    streams: Mapping[str, Callable[[PageRequest], AsyncIterator[bytes]]],
    endpoint: ViewerEndpoint,
    request: Request,
) -> Response:
    page_request = PageRequest(viewer, request.path_params, dict(request.query_params), ReadStop())
    unknown = [name for name in request.query_params if name not in endpoint.parameters]
    if unknown:
        message = f"{endpoint.path} has no parameter {unknown[0][:40]!r}"
        return _json(400, ErrorReply(error="BadRequest", message=message))
    if endpoint.streams:
        return StreamingResponse(streams[endpoint.name](page_request), media_type=LINES)
    try:
        return await _read_when_indexed(
            partial(
                reads.run,
                partial(_read_endpoint, endpoint.name, page_request),
                partial(_wait_for_disconnect, request),
                kind=_kind(endpoint),
            ),
            viewer.indexing_s,
        )
    except PageLeft:
        return Response(status_code=PAGE_LEFT)
    except Exception as error:  # the page says which part failed; the others live on
        return error_response(error, where=endpoint.name)


async def _read_when_indexed(
    request_reply: Callable[[], Awaitable[Response]], wait_s: float
) -> Response:
    """Return the answer. What is not indexed yet is waited for, at most `wait_s`.

    Raises StillIndexing: it is not indexed by then.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return await request_reply()
        except NoSuchRow as error:
            if not error.may_come:
                raise
            if time.monotonic() >= deadline:
                raise StillIndexing(error.message, error.run) from error
        except StillIndexing:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(INDEXING_POLL_S)


def _kind(endpoint: ViewerEndpoint) -> ReadKind:
    if endpoint.name in RUN_READS:
        return ReadKind.RUN
    return ReadKind.ROW if endpoint.name in ROW_READS else ReadKind.TABLE


def _read_endpoint(name: str, page_request: PageRequest, stop: ReadStop) -> Response:
    page_request = replace(page_request, stop=stop)
    if name in BYTES:
        media_type, data = BYTES[name](page_request)
        headers = {"content-disposition": 'attachment; filename="row.json"'}
        return Response(data, media_type=media_type, headers=headers if name == "download" else {})
    headers = {}
    if "run" in page_request.parts:  # read before the reply is made, which may then rest on more
        headers[VERSION_HEADER] = str(page_request.run.snapshot.version)
    return _json(200, ANSWERS[name](page_request), headers)


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the page has left."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


def _json(status: int, reply: Reply, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(reply), status, headers=headers, media_type=JSON)


def encoded(reply: Reply) -> bytes:
    """Return a reply as JSON. Lone surrogates, which UTF-8 lacks, are written as escapes."""
    try:
        return _encoder.encode(reply)
    except UnicodeEncodeError:
        values = _finite(msgspec.to_builtins(reply))
        return json.dumps(values, allow_nan=False).encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    is_absent = isinstance(value, float) and not math.isfinite(value)
    return None if is_absent else value


def error_response(error: Exception, *, where: str) -> Response:
    """Return the answer for a part that failed: what happened, and what to do."""
    status = _status_of(error)
    message = error.message if isinstance(error, PalestraError) else _plain_message(error)
    reply = ErrorReply(
        error=type(error).__name__,
        message=message,
        hint=error.hint if isinstance(error, PalestraError) else "",
        layer=error.layer.value if isinstance(error, PalestraError) else "",
        where=where,
        position=error.position - 1 if isinstance(error, QueryError) else None,
        nearest=error.nearest if isinstance(error, QueryError) else "",
        indexed=runs.base_of(error.run) if isinstance(error, StillIndexing) else None,
    )
    return _json(status, reply)


def _status_of(error: Exception) -> int:
    if isinstance(error, RunChanged | FileNotFoundError):
        return 409
    if isinstance(error, StillIndexing):
        return 503
    if isinstance(error, NoSuchRun):
        return 404
    return 400 if isinstance(error, PalestraError) else 500


def _plain_message(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"the run changed: {error.filename} is gone"
    return f"{type(error).__name__}: {error}"


# Streams


async def _live_runs(reads: Reads, page_request: PageRequest) -> AsyncIterator[bytes]:
    async for line in _changes(reads, lambda: runs.run_list(page_request.viewer)):
        yield line


async def _live(reads: Reads, page_request: PageRequest) -> AsyncIterator[bytes]:
    computed_at = time.time()

    def state() -> Live:
        nonlocal computed_at
        live = runs.live_state(page_request.viewer, page_request.run, computed_at)
        computed_at = live.at if live.changed else computed_at
        return live

    async for line in _changes(reads, state):
        yield line


async def _changes(reads: Reads, read_reply: Callable[[], Reply]) -> AsyncIterator[bytes]:
    """Yield a reply each second while it changes, and at least each 15 s."""
    last, said_at = b"", 0.0
    while True:
        try:
            line = await reads.run(lambda _: encoded(read_reply()), _forever, kind=ReadKind.TABLE)
        except Exception as error:  # the page says that the stream failed
            yield bytes(error_response(error, where="live").body) + b"\n"
            return
        now = time.monotonic()
        if _without_times(line) != last or now - said_at >= LIVE_AT_LEAST_S:
            last, said_at = _without_times(line), now
            yield line + b"\n"
        await asyncio.sleep(LIVE_POLL_S)


async def _forever() -> None:
    """Wait until cancelled: a stream is cancelled when its page leaves."""
    await asyncio.Event().wait()


def _without_times(line: bytes) -> bytes:
    value = json.loads(line)
    value.pop("at", None)
    return json.dumps(value).encode()


async def _search(reads: Reads, page_request: PageRequest) -> AsyncIterator[bytes]:
    """Yield what a search in transcripts finds, as it goes on."""
    stop = ReadStop()
    steps = iter(tables.search(page_request, stop))
    try:
        while True:
            progress = await reads.run(lambda _: next(steps, None), _forever, kind=ReadKind.RUN)
            if progress is None:
                return
            yield encoded(progress) + b"\n"
    except PalestraError as error:
        yield bytes(error_response(error, where="search").body) + b"\n"
    finally:
        stop.set()


# The page


async def _unknown(request: Request) -> Response:
    message = f"there is nothing at {request.url.path[:200]}"
    return _json(404, ErrorReply(error="NotFound", message=message))


async def _asset(request: Request) -> Response:
    return _file(request.path_params["name"])


async def _page(request: Request) -> Response:
    del request
    return _file("index.html")


def _file(name: str) -> Response:
    """Return one of the page's own files. The names are those in the folder; none is a path."""
    folder = resources.files("palestra.viewer").joinpath("static")
    files = {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}
    suffix = name[name.rfind(".") :] if "." in name else ""
    if name not in files or suffix not in _ASSETS:
        message = f"the viewer has no file {name[:80]!r}"
        return _json(404, ErrorReply(error="NotFound", message=message))
    return Response(files[name].read_bytes(), media_type=_ASSETS[suffix])
