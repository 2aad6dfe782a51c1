"""Error replies that come from no endpoint: unknown paths, wrong methods, bodies that are too
large, and the `HTTPException`s of an author's own routes.

They are envelopes like every other error. The framework's original text is kept next to the error,
as `detail`: existing clients read it, and for a tool call the model reads it.
"""

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, final

from fastapi import FastAPI
from fastapi.exception_handlers import (
    http_exception_handler,
    request_validation_exception_handler,
)
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from palestra.config import did_you_mean, masked_texts
from palestra.errors import (
    CallError,
    CallEvidence,
    InfraError,
    RowError,
    RowIdentity,
    add_row,
    mask_error,
    to_body,
)
from palestra.schema import JsonDict, encode_json
from palestra.server.author_calls import VERIFY
from palestra.server.own_errors import own_frames
from palestra.server.sessions import UnknownTool
from palestra.transport import Activity, add_verify_request, current_call, is_tool_path

NoteFault = Callable[[MutableMapping[str, Any], BaseException], None]
"""Gets the scope of a request that failed with a bug of the author's code, and the exception."""

LONGEST_DETAIL = 500
"""The largest number of characters of an author's own reply that the message repeats."""

_UNTOLD = frozenset({"/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"})
"""The framework's own pages, which are left out of lists of endpoints."""


@final
class RefusalEnvelopes:
    """Turns the error replies of `app` into envelopes.

    `own_failure`: makes the error of this kind of server for a path. `note_fault`: gets the scope of
    a request that its route refused with a status of 500 or more, and the exception. Handlers that
    the author added to the app are not changed.
    """

    def __init__(
        self,
        app: FastAPI,
        *,
        server: str,
        own_failure: Callable[[str, str, CallEvidence], CallError],
        mask: Callable[[str], str] = str,
        note_fault: NoteFault | None = None,
    ) -> None:
        self._note_fault = note_fault
        self._mask = mask
        self._app = app
        self._server = server
        self._own_failure = own_failure
        if app.exception_handlers.get(HTTPException) is http_exception_handler:
            app.add_exception_handler(HTTPException, self._answer)  # type: ignore[arg-type]
        handler = app.exception_handlers.get(RequestValidationError)
        if handler is request_validation_exception_handler:
            app.add_exception_handler(RequestValidationError, _reraise)

    def complete(
        self, failure: CallError, row: RowIdentity | None, activity: Activity | None
    ) -> None:
        """Add the row and the verify request to `failure`, and mask its secrets, before it is sent."""
        add_row(failure, row)
        add_verify_request(failure, activity)
        mask_error(failure, self._mask)

    def body(
        self,
        method: str,
        path: str,
        status: int,
        detail: Any,
        *,
        routed: bool = True,
        frames: str = "",
    ) -> JsonDict:
        """Return the envelope of one error reply. `routed`: whether a route was found for the path.
        `frames`: where the author's code raised it.
        """
        failure = self._failure(method, path, status, detail, routed=routed)
        failure.evidence = replace(failure.evidence, traceback=frames)
        call = current_call()
        self.complete(failure, call.row, call.activity)
        if status == HTTPStatus.NOT_FOUND and not routed and method == "POST":
            detail = self._no_such_tool(path) or detail
        return {**to_body(failure), "detail": masked_texts(detail, self._mask)}

    async def _answer(self, request: Request, error: HTTPException) -> HttpResponse:
        if error.status_code < 200 or error.status_code in {204, 205, 304}:
            return HttpResponse(status_code=error.status_code, headers=error.headers)
        scope = request.scope
        is_routed = "endpoint" in scope
        is_bug = error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
        # What a tool refuses is for the model to read: nobody looks for the line.
        is_of_tool = is_tool_path(scope["path"])
        # Without any tools of its own, an environment may score the calls themselves.
        is_unknown = not is_routed and scope["method"] == "POST" and bool(self._tools())
        if self._note_fault is not None and (is_bug or is_unknown):
            fault = UnknownTool(self._no_such_tool(scope["path"])) if is_unknown else error
            self._note_fault(scope, fault)
        body = self.body(
            scope["method"],
            scope["path"],
            error.status_code,
            error.detail,
            routed=is_routed,
            frames=own_frames(error) if is_routed and (is_bug or not is_of_tool) else "",
        )
        return HttpResponse(
            encode_json(body),
            status_code=error.status_code,
            headers=error.headers,
            media_type="application/json",
        )

    def _failure(
        self, method: str, path: str, status: int, detail: Any, *, routed: bool
    ) -> CallError:
        if status == HTTPStatus.NOT_FOUND and not routed:
            return self._no_such_path(method, path)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            return self._no_such_method(method, path)
        text = detail if isinstance(detail, str) else encode_json(detail).decode()
        message = f"{self._server}{path} answered {status}: {text[:LONGEST_DETAIL]}"
        # What the request model refuses is no answer of the route. A verifier that answers 422 itself
        # has read the row, and what is wrong is for the verifier to say.
        if status == HTTPStatus.UNPROCESSABLE_ENTITY and not path.endswith(VERIFY):
            return RowError(message)
        if status in {502, 503, 504}:
            return InfraError(message)
        return self._own_failure(path, message, CallEvidence())

    def _no_such_path(self, method: str, path: str) -> CallError:
        endpoints = list(_endpoints(self._app))
        near = did_you_mean(path, {endpoint for _, endpoint in endpoints})
        failure = self._own_failure(
            path, f"{self._server} has no endpoint {method} {path}{near}", CallEvidence()
        )
        failure.hint = "endpoints: " + ", ".join(f"{how} {endpoint}" for how, endpoint in endpoints)
        failure.retriable = False
        return failure

    def _no_such_tool(self, path: str) -> str:
        """Return the text that a model reads when it calls an unknown tool; "" when this server is
        no environment.
        """
        tools = self._tools()
        if tools is None:
            return ""
        near = did_you_mean(path[1:], tools)
        tool_list = f"; tools: {', '.join(tools)}" if tools else "; there are none"
        return f"there is no tool named {path[1:]!r}{near}{tool_list}"

    def _tools(self) -> list[str] | None:
        """Return the names of the tools; None when this server is no environment."""
        posts = {endpoint for how, endpoint in _endpoints(self._app) if how == "POST"}
        if VERIFY not in posts:
            return None
        return sorted(path[1:] for path in posts if is_tool_path(path))

    def _no_such_method(self, method: str, path: str) -> CallError:
        methods = [how for how, where in _endpoints(self._app) if where == path]
        failure = self._own_failure(
            path,
            f"{self._server}{path} takes {' or '.join(methods) or 'another method'}, not {method}",
            CallEvidence(),
        )
        failure.retriable = False
        return failure


def _endpoints(app: FastAPI) -> Iterable[tuple[str, str]]:
    """Yield the method and path of every route, in the app's order."""
    for route in app.routes:
        path = getattr(route, "path", "")
        if not path or path in _UNTOLD:  # without a path it is no endpoint
            continue
        for method in sorted(getattr(route, "methods", None) or {"any"}):
            if method != "HEAD":
                yield method, path


async def _reraise(_request: Any, error: Exception) -> Any:
    raise error
