"""A short path to the routes that authors of `nemo_gym` servers add to their FastAPI app.

FastAPI's middleware, routing and dependencies take several times as long as a verification itself.
A route whose function takes only a body, and perhaps the HTTP request, needs none of them. The
author's function, its models and its response model are the same on both paths. What ends
otherwise than with a result goes through the app, so that errors have one form.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeGuard, final

import orjson
from fastapi import FastAPI
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from palestra.compat.results import encoded_answer
from palestra.errors import from_body
from palestra.schema import JSON_TYPE, JsonDict, encode_json, fields_of
from palestra.server import (
    ESCAPES,
    PREFIX_SCOPE_KEY,
    SESSION_ID_KEY,
    AuthorMethod,
    ToolFault,
    stops_this_task,
)
from palestra.system import current_pulse
from palestra.transport import (
    IN_PROCESS_CLIENT,
    SESSION_SCOPE_KEY,
    ASGIApp,
    HttpReply,
    call_asgi,
    cookie_header,
    parse_set_cookies,
    tool_failure_text,
)

_ENDED: Final = "palestra.ended"
"""The scope key for what a function ended with, when that is not a result: an exception, or a whole
HTTP response."""

_JSON_HEADERS: Final = {"content-type": JSON_TYPE}

MOST_SESSIONS: Final = 100_000
"""The largest number of sessions whose fields are kept; the oldest are forgotten."""


def no_faults(_session_id: str) -> Collection[ToolFault]:
    """Return no tool faults: the default of a route that does not report them."""
    return ()


@final
class SessionFields:
    """What an author's code stored in `request.session`, by session id.

    A session cookie holds it for callers over HTTP. Callers in this process have no cookies.
    """

    def __init__(self) -> None:
        self._fields: OrderedDict[str, JsonDict] = OrderedDict()

    def __contains__(self, session: JsonDict) -> bool:
        return session.get(SESSION_ID_KEY) in self._fields

    def opened(self, session_id: str) -> JsonDict:
        """Return the session with this id, to be given to one request."""
        return {SESSION_ID_KEY: session_id, **self._fields.get(session_id, {})}

    def keep(self, session: JsonDict) -> None:
        """Keep the fields of a session after a request, if it has more than its id."""
        session_id = session.get(SESSION_ID_KEY)
        if session_id is None or (len(session) == 1 and session_id not in self._fields):
            return
        self._fields[session_id] = dict(session)
        if len(self._fields) > MOST_SESSIONS:
            self._fields.popitem(last=False)


@final
class DirectRoute:
    """One route of an author's app. Callers in this process pass objects to it.

    `app`: the author's app. `whole_app`: returns the server's app around it, for requests that do
    not end with a result. `author`: reports the call to the pulse.
    """

    def __init__(
        self,
        route: APIRoute,
        *,
        app: FastAPI,
        whole_app: Callable[[], ASGIApp],
        sessions: SessionFields,
        author: AuthorMethod | None,
        is_tool: bool,
        needs_app: Collection[str] = (),
        tool_faults: Callable[[str], Collection[ToolFault]] = no_faults,
    ) -> None:
        """`needs_app`: fields of a body for which the app's middleware is needed, as it is for a
        session that has `tool_faults`.
        """
        dependant = route.dependant
        self.path = route.path
        self.is_tool = is_tool
        self._app = app
        self._whole_app = whole_app
        self._sessions = sessions
        self._author = author
        self._needs_app = frozenset(needs_app)
        self._tool_faults = tool_faults
        self._function: Any = dependant.call
        self._is_async = inspect.iscoroutinefunction(dependant.call)
        self._request_name = dependant.request_param_name
        self._response_name = dependant.response_param_name
        self._body_name = dependant.body_params[0].name if dependant.body_params else None
        self._model: Any = _body_model(route)
        self._encoded = partial(encoded_answer, route)

    async def invoke(self, body: Any, /, *, session_id: str) -> Any:
        """Run the route's function with `body` and return its result as JSON; a tool's as text.

        Raises `CallError`: the body does not fit, or the function failed.
        """
        reply = await self.call(body, session_id=session_id)
        if reply.status < HTTPStatus.BAD_REQUEST:
            return reply.body.decode("utf-8", "replace") if self.is_tool else reply.body
        refusal = _json(reply.body)
        failure = from_body(refusal)
        if failure is None:
            return reply.body.decode("utf-8", "replace") if self.is_tool else reply.body
        if self.is_tool and (text := tool_failure_text(failure, refusal)) is not None:
            return text
        raise failure

    async def call(
        self, body: Any, /, *, session_id: str, cookies: Mapping[str, str] | None = None
    ) -> HttpReply:
        """Run the route's function with `body` and return the reply that HTTP would carry.

        `cookies`: the request's cookies, among them those that the function sends on.
        """
        fields = fields_of(body) if isinstance(body, BaseModel) else body
        through_app = partial(self._through_app, session_id, cookies)
        if self._tool_faults(session_id) or not self._needs_app.isdisjoint(fields):
            return await through_app(encode_json(fields))
        session = self._sessions.opened(session_id)
        request = partial(_request, self._app, self.path, session, fields, cookies)
        try:
            answer, set_by_function = await self._outcome(fields, request, watched=True)
        except ValidationError:
            return await through_app(encode_json(fields))
        self._sessions.keep(session)
        if not isinstance(answer, bytes):
            return await through_app(b"", answer)
        if set_by_function is None:
            return HttpReply(HTTPStatus.OK, answer, _JSON_HEADERS)
        headers = set_by_function.headers
        cookies = parse_set_cookies(headers.getlist("set-cookie"))
        return HttpReply(set_by_function.status_code, answer, {**headers, **_JSON_HEADERS}, cookies)

    async def respond(self, scope: Scope, raw: bytes) -> HttpResponse | BaseException:
        """Return the response to the request `scope` with the body `raw`, or the exception that the
        function raised.

        Raises ValidationError or JSONDecodeError: the body does not fit.
        """
        fields = orjson.loads(raw) if raw else {}
        answer, set_by_function = await self._outcome(
            fields, lambda: Request({**scope, "app": self._app}, _received(raw))
        )
        if not isinstance(answer, bytes):
            return answer
        if set_by_function is None:
            return HttpResponse(answer, media_type=JSON_TYPE)
        response = HttpResponse(answer, set_by_function.status_code, media_type=JSON_TYPE)
        response.raw_headers.extend(set_by_function.raw_headers)
        return response

    async def _outcome(
        self, fields: Any, request: Callable[[], Request], *, watched: bool = False
    ) -> tuple[bytes | HttpResponse | BaseException, HttpResponse | None]:
        """Return the result as JSON, the whole response that the function made, or its exception;
        and the response whose headers and status it could set. `watched`: report the call to the
        pulse.
        """
        arguments: dict[str, Any] = {}
        if self._body_name is not None:
            arguments[self._body_name] = self._model.model_validate(fields)
        if self._request_name:
            arguments[self._request_name] = request()
        response = None
        if self._response_name:
            response = arguments[self._response_name] = HttpResponse()
            del response.headers["content-length"]
        try:
            pulse = current_pulse() if watched and self._author is not None else None
            if pulse is not None and self._author is not None:
                begin = partial(self._begin, arguments)
                value = await self._author.executed(pulse, begin, fields)
            else:
                value = await self._begin(arguments)
            if isinstance(value, HttpResponse):
                return value, response
            return self._encoded(value), response
        except ESCAPES as error:  # the app turns it into its response
            if stops_this_task(error):
                raise
            return error, None

    async def _begin(self, arguments: dict[str, Any]) -> Any:
        if self._is_async:
            return await self._function(**arguments)
        return await run_in_threadpool(self._function, **arguments)

    async def _through_app(
        self,
        session_id: str,
        cookies: Mapping[str, str] | None,
        raw: bytes,
        ending: Any = None,
    ) -> HttpReply:
        app = self._whole_app()

        async def ended_app(scope: Scope, receive: Receive, send: Send) -> None:
            await app(scope if ending is None else {**scope, _ENDED: ending}, receive, send)

        return await call_asgi(
            ended_app, "POST", self.path, body=raw, cookies=cookies, session_id=session_id
        )

    def needs_app(self, raw: bytes, session_id: str) -> bool:
        """Whether the app's middleware is needed for a request with the body `raw`."""
        marked = any(name.encode() in raw for name in self._needs_app)
        return marked or bool(self._tool_faults(session_id))


@final
class DirectRoutes:
    """ASGI app in front of an author's app: it calls `routes` directly and leaves the rest to
    `app`.
    """

    def __init__(
        self, app: FastAPI, routes: Iterable[DirectRoute], sessions: SessionFields
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._routes = {route.path: route for route in routes}

    def route(self, path: str) -> DirectRoute | None:
        """Return the route at `path`; None when it can only be called through the app."""
        return None if self._app.dependency_overrides else self._routes.get(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _ENDED in scope:
            await self._app(scope, receive, send)
            return
        session: JsonDict | None = scope.get("session")
        is_kept = session is not None and (SESSION_SCOPE_KEY in scope or session in self._sessions)
        if session is not None and is_kept:
            session |= self._sessions.opened(session[SESSION_ID_KEY])
        route = self.route(scope["path"]) if _is_plain_post(scope) else None
        if route is None:
            await self._app(scope, receive, send)
        else:
            await self._answer(route, scope, receive, send)
        if session is not None and is_kept:
            self._sessions.keep(session)

    async def _answer(self, route: DirectRoute, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await _read_body(receive)
        receive_again = _replayed(raw, receive)
        if route.needs_app(raw, scope.get("session", {}).get(SESSION_ID_KEY, "")):
            await self._app(scope, receive_again, send)
            return
        try:
            answer = await route.respond(scope, raw)
        except (ValidationError, orjson.JSONDecodeError):
            await self._app(scope, receive_again, send)
            return
        if isinstance(answer, BaseException):
            await self._app({**scope, _ENDED: answer}, receive_again, send)
        else:
            await answer(scope, receive, send)


@final
class _Ended(BaseRoute):
    """A route, before all others, that ends a request as its function did outside of the app."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        # With an endpoint, as a route has one: a 404 of the function is no unknown path.
        return (Match.FULL, {"endpoint": self.handle}) if _ENDED in scope else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        ending = scope[_ENDED]
        if isinstance(ending, BaseException):
            raise ending
        await ending(scope, receive, send)


def let_end(app: FastAPI) -> None:
    """Let `app` end requests whose functions ran outside of it. Call it once, after all routes were
    added.
    """
    app.router.routes.insert(0, _Ended())


def is_direct(
    route: BaseRoute, app: FastAPI, known_middleware: Collection[Any]
) -> TypeGuard[APIRoute]:
    """Whether `route` of `app` can be called without the app.

    `known_middleware`: middleware classes of ours, which the short path makes unnecessary.
    """
    if not isinstance(route, APIRoute) or type(app) is not FastAPI or app.root_path:
        return False
    dependant = route.dependant
    plain = not (
        dependant.dependencies
        or dependant.path_params
        or dependant.query_params
        or dependant.header_params
        or dependant.cookie_params
        or dependant.background_tasks_param_name
        or dependant.http_connection_param_name
        or dependant.websocket_param_name
        or dependant.security_scopes_param_name
        or len(dependant.body_params) > 1
    )
    defaults = (
        route.status_code is None
        and isinstance(route.response_class, DefaultPlaceholder)
        and not route.response_model_include
        and not route.response_model_exclude
        and not route.response_model_exclude_unset
        and not route.response_model_exclude_defaults
        and not route.response_model_exclude_none
        and route.response_model_by_alias
    )
    generates = inspect.isgeneratorfunction(route.endpoint) or inspect.isasyncgenfunction(
        route.endpoint
    )
    return (
        plain
        and defaults
        and not generates
        and "POST" in (route.methods or ())
        and (not dependant.body_params or _body_model(route) is not None)
        and all(layer.cls in known_middleware for layer in app.user_middleware)
        and _comes_first(app, route)
    )


def _body_model(route: APIRoute) -> type[BaseModel] | None:
    if route.body_field is None or not route.dependant.body_params:
        return None
    info = route.body_field.field_info
    kind: Any = info.annotation
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel) and info.is_required()
    return kind if is_model else None


def _comes_first(app: FastAPI, route: APIRoute) -> bool:
    scope = {"type": "http", "method": "POST", "path": route.path, "headers": []}
    for app_route in app.routes:
        match, _ = app_route.matches(scope)
        if match is Match.FULL:
            return app_route is route
    return False


def _is_plain_post(scope: Scope) -> bool:
    if scope["method"] != "POST" or scope.get("root_path") or PREFIX_SCOPE_KEY in scope:
        return False
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return kinds == [b"application/json"]


def _request(
    app: FastAPI, path: str, session: JsonDict, fields: Any, cookies: Mapping[str, str] | None
) -> Request:
    headers = [(b"content-type", b"application/json")]
    if cookies:
        headers.append((b"cookie", cookie_header(cookies).encode("latin-1", "replace")))
    scope: Scope = {
        "app": app,
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": IN_PROCESS_CLIENT,
        "server": IN_PROCESS_CLIENT,
        "path_params": {},
        "state": {},
        "session": session,
    }
    return Request(scope, _received(fields))


def _received(body: Any) -> Receive:
    """Return a function that yields `body`, encoded when it is first asked for."""

    async def receive() -> Any:
        raw = body if isinstance(body, bytes) else encode_json(body)
        return {"type": "http.request", "body": raw, "more_body": False}

    return receive


def _replayed(raw: bytes, receive: Receive) -> Receive:
    """Return a function that yields the body `raw` once more, and then what `receive` yields: the
    app's middleware reads the body again, and a response waits for the caller to leave.
    """
    messages = iter([{"type": "http.request", "body": raw, "more_body": False}])

    async def receive_again() -> Any:
        message = next(messages, None)
        return await receive() if message is None else message

    return receive_again


async def _read_body(receive: Receive) -> bytes:
    chunks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
