"""The only middleware of every server: sessions, call context, and errors as envelopes.

Pure ASGI in one layer: each function-style middleware would cost more time than the framework
itself.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, final

from msgspec.structs import replace

from palestra.errors import (
    CallError,
    CallEvidence,
    DeadlineExceeded,
    InfraError,
    KnownCause,
    RowIdentity,
    WrongSetting,
    status_for,
    to_body,
)
from palestra.observability import ROLLOUT_SEGMENT, rollout_context, row_of, without_prefix
from palestra.schema import JsonDict, encode_json
from palestra.server.author_calls import AuthorMethod
from palestra.server.authors_errors import ESCAPES, TIME_LIMIT, stops_this_task
from palestra.server.caller import PREFIX_SCOPE_KEY, Caller, Message, Receive
from palestra.server.in_flight import IN_FLIGHT_PATH, InFlightCalls
from palestra.server.own_errors import authors_line
from palestra.server.refusals import NoteFault, RefusalEnvelopes
from palestra.server.sessions import SESSION_ID_KEY
from palestra.server.signing import Signer
from palestra.system import bears_token, current_pulse
from palestra.transport import (
    IN_PROCESS_CLIENT,
    SESSION_SCOPE_KEY,
    Activity,
    ASGIApp,
    CallContext,
    calling,
    context_from_headers,
    current_call,
    encoded_with,
    new_id,
    parse_set_cookies,
)

Send = Callable[[Message], Awaitable[None]]

_PREFIX: Final = f"/{ROLLOUT_SEGMENT}/"

_NEEDS_NO_SESSION: Final = frozenset({"/seed_session", "/reset", "/aggregate_metrics"})
"""The paths at which a rollout begins, whatever session its caller had before, and that of metrics."""

MOST_PATHS: Final = 256
"""The largest number of paths cached per server: a model may make up tool names without end."""

_STOPGAPS = frozenset({413, 500})
"""Statuses that the framework answers in plain text, before or after an exception."""


@final
class SessionCookie:
    """The signed cookie that contains a session; its name is `{ClassName}___{instance}`.

    `worker`: name and value of a second cookie, set when several processes serve the instance.
    Callers use it to reach the process that has the session.
    """

    def __init__(self, name: str, secret: str, *, worker: tuple[str, str] | None = None) -> None:
        self.name = name
        self.worker = worker
        self._signer = Signer(secret, purpose=name)

    def read(self, cookie_header: str) -> JsonDict | None:
        """Return the content of the cookie; None when it is absent or this server did not sign it."""
        if self.name not in cookie_header:
            return None
        # Not `SimpleCookie`: one odd cookie beside ours, and that drops them all.
        cookies = parse_set_cookies(cookie_header.split(";"))
        try:
            payload = json.loads(b64decode(self._signer.unsign(cookies[self.name].encode())))
        except (KeyError, ValueError):
            return None
        return payload if isinstance(payload, dict) else None

    def is_in(self, cookie_header: str) -> bool:
        """Whether the caller has a cookie of this name, whoever signed it."""
        if self.name not in cookie_header:
            return False
        return self.name in parse_set_cookies(cookie_header.split(";"))

    def strayed(self, cookie_header: str) -> str:
        """Return the number of the worker that has the session when it is another process; else ""."""
        if self.worker is None or self.worker[0] not in cookie_header:
            return ""
        worker = parse_set_cookies(cookie_header.split(";")).get(self.worker[0], "")
        return worker if worker != self.worker[1] else ""

    def write(self, payload: JsonDict) -> str:
        """Return the value of a Set-Cookie header for `payload`."""
        signed = self._signer.sign(b64encode(json.dumps(payload).encode())).decode()
        return f"{self.name}={signed}; path=/; httponly; samesite=lax"


@final
class Boundary:
    """Wraps an app so that every reply is an answer or an error envelope, never a traceback.

    It is outside the app's own error handling. When an exception comes through, the plain-text
    reply of the framework is held back and the envelope is sent instead. Without a `cookie` there
    are no sessions.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        server: str,
        refusals: RefusalEnvelopes,
        on_error: Callable[[str, BaseException], CallError],
        cookie: SessionCookie | None = None,
        token: str = "",
        in_flight: InFlightCalls | None = None,
        environment: bool = False,
        keeps_state: bool = False,
        author: Callable[[None, str], AuthorMethod | None] | None = None,
        note_fault: NoteFault | None = None,
    ) -> None:
        """`environment`: whether the app is an environment, so that its calls count as made in the
        environment. `keeps_state`: whether a call may depend on an earlier one of its rollout, so that
        the session of an earlier process is refused. `author`: returns the AuthorMethod that
        reports a call of a path to the pulse. `note_fault`: gets the scope of a request at which the app's own code raised an exception.
        """
        self._author = author
        self._note_fault = note_fault
        self._methods: dict[str, AuthorMethod | None] = {}
        self._environment = environment
        self._keeps_state = keeps_state
        self._in_flight = in_flight or InFlightCalls(server)
        self._app = app
        self._server = server
        self._refusals = refusals
        self._cookie = cookie
        self._on_error = on_error
        self._token = token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith(_PREFIX):
            await self._handle(scope, receive, send)
            return
        scope, prefixed = without_prefix(scope)
        if prefixed is None:
            await self._handle(scope, receive, send)
            return
        scope[PREFIX_SCOPE_KEY] = prefixed.prefix
        with rollout_context(prefixed.rollout_id, token_capture=prefixed.token_capture):
            await self._handle(scope, receive, send, row_of(prefixed.rollout_id))

    async def _handle(
        self, scope: Message, receive: Receive, send: Send, row: RowIdentity | None = None
    ) -> None:
        """Answer one HTTP request. `row`: the rollout that its path named."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not self._allowed(headers, scope):
            await _answer(send, 401, to_body(_token_missing(self._server)))
            return
        if stray := self._cookie is not None and self._cookie.strayed(headers.get("cookie", "")):
            await _answer(send, 500, to_body(_strayed(self._server, stray)))
            return
        if scope["path"] == IN_FLIGHT_PATH:
            await _answer(send, 200, self._in_flight.as_json())
            return
        session = self._session(scope, headers)
        if session is not None and session.is_lost and _needs_session(scope):
            await _answer(send, 500, to_body(_session_lost(self._server)))
            return
        answer = BoundaryAnswer(send, session)
        context = _context(headers, row)
        if self._environment:
            context = context.inside_environment()
        limit = asyncio.timeout(context.remaining_s())
        if scope.get("client") == IN_PROCESS_CLIENT:
            failure = await self._failure(scope, receive, answer, context, limit)
        else:
            answer.caller = Caller(receive, limit, has_body=_has_body(headers))
            call = self._in_flight.begin(scope["path"], context)
            try:
                failure = await self._failure(scope, answer.caller.receive, answer, context, limit)
            finally:
                self._in_flight.end(call)
        if failure is not None and not answer.started:
            # A caller in this process has the verify request already.
            activity = None if scope.get("client") == IN_PROCESS_CLIENT else context.activity
            self._refusals.complete(failure, context.row, activity)
            await _answer_failure(answer.pass_on, failure)

    async def _failure(
        self,
        scope: Message,
        receive: Receive,
        answer: "BoundaryAnswer",
        context: CallContext,
        limit: asyncio.Timeout,
    ) -> CallError | None:
        """Let the app answer the request. Return the error if it fails; None on success or when the
        caller has disconnected.
        """
        caller = answer.caller
        left_s = context.remaining_s()
        try:
            with calling(context):
                async with limit:
                    await self._answer_once(scope, receive, answer)
                    await self._release(scope, answer)
        except CallError as error:
            return self._on_error(scope["path"], error)
        except ESCAPES as error:
            if stops_this_task(error):
                if caller is None or not caller.insisted or isinstance(error, KeyboardInterrupt):
                    raise
                _uncancel()
                return None
            if caller is not None and caller.gone:
                return None
            if limit.expired():
                return _timed_out(self._server, scope["path"], context, left_s, error)
            # An author's own TimeoutError is a bug of theirs, not our deadline.
            failure = self._on_error(scope["path"], error)
            if self._note_fault is not None and failure.evidence.traceback:
                self._note_fault(scope, error)
            return failure
        finally:
            if caller is not None:
                caller.close()
        return None

    async def _answer_once(
        self, scope: Message, receive: Receive, answer: "BoundaryAnswer"
    ) -> None:
        pulse = current_pulse()
        if pulse is None or self._author is None:
            await self._app(scope, receive, answer.send)
            return
        path = scope["path"]
        if path not in self._methods:
            if len(self._methods) >= MOST_PATHS:
                self._methods.clear()
            self._methods[path] = self._author(None, path)
        method = self._methods[path]
        if method is None:
            await self._app(scope, receive, answer.send)
        else:
            await method.executed(pulse, partial(self._app, scope, receive, answer.send))

    def _allowed(self, headers: dict[str, str], scope: Message) -> bool:
        if not self._token or SESSION_SCOPE_KEY in scope:
            return True
        credentials = headers.get("authorization", "").encode("latin-1")
        return bears_token(credentials, self._token)

    def _session(self, scope: Message, headers: dict[str, str]) -> "_OpenSession | None":
        """Put the session into the scope and return it; None without a cookie."""
        if self._cookie is None:
            return None
        earlier_session = scope.get(SESSION_SCOPE_KEY)
        cookies = headers.get("cookie", "")
        stored = self._cookie.read(cookies)
        if earlier_session and (stored is None or stored.get(SESSION_ID_KEY) != earlier_session):
            stored = {SESSION_ID_KEY: earlier_session}
        session: JsonDict = stored or {}
        session.setdefault(SESSION_ID_KEY, new_id())
        scope["session"] = session
        is_lost = stored is None and self._keeps_state and self._cookie.is_in(cookies)
        before = None if stored is None else dict(session)
        return _OpenSession(self._cookie, session, before, is_lost=is_lost)

    async def _release(self, scope: Message, answer: "BoundaryAnswer") -> None:
        """Send the reply that was held back, as no exception came. A body limit (413) is sent as an
        envelope.
        """
        session = answer.held
        if not session:
            return
        if session[0]["status"] != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            for message in session:
                await answer.pass_on(message)
            return
        detail = b"".join(message.get("body", b"") for message in session).decode()
        body = self._refusals.body(scope["method"], scope["path"], session[0]["status"], detail)
        await _answer(answer.pass_on, session[0]["status"], body)


@final
class _OpenSession:
    """The session of one request, and its content when the request came. `is_lost`: the caller has
    the session of an environment that another process opened.
    """

    __slots__ = ("_before", "_cookie", "_session", "is_lost")

    def __init__(
        self,
        cookie: SessionCookie,
        session: JsonDict,
        before: JsonDict | None,
        *,
        is_lost: bool = False,
    ) -> None:
        self._cookie = cookie
        self._session = session
        self._before = before
        self.is_lost = is_lost

    def cookies(self) -> list[tuple[bytes, bytes]]:
        """Return the Set-Cookie headers; none when the session has not changed."""
        if self._session == self._before:
            return []
        worker = self._cookie.worker
        worker_cookies = (
            [] if worker is None else [f"{worker[0]}={worker[1]}; path=/; samesite=lax"]
        )
        return [
            (b"set-cookie", cookie.encode("latin-1"))
            for cookie in (self._cookie.write(self._session), *worker_cookies)
        ]


@final
class BoundaryAnswer:
    """Sends one reply to the caller. Adds the session's cookie, and holds back the plain text that
    the framework writes about exceptions and limits.
    """

    __slots__ = ("_send", "_session", "caller", "held", "started")

    def __init__(self, send: Send, session: _OpenSession | None) -> None:
        self._send = send
        self._session = session
        self.held: list[Message] = []
        self.started = False
        """Whether anything has reached the caller."""
        self.caller: Caller | None = None
        """None for one in this process, who cancels us directly."""

    async def send(self, message: Message) -> None:
        """Send a message of the app, or hold it back when it belongs to a plain-text error reply."""
        if self.held or (message["type"] == "http.response.start" and _is_stopgap(message)):
            self.held.append(message)
        else:
            await self.pass_on(message)

    async def pass_on(self, message: Message) -> None:
        """Send a message to the caller without holding it back."""
        if message["type"] == "http.response.start":
            self.started = True
            if self._session is not None and (cookies := self._session.cookies()):
                message["headers"] = [*message.get("headers", ()), *cookies]
        elif self.caller is not None and not message.get("more_body"):
            self.caller.done = True
        await self._send(message)


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _is_stopgap(start: Message) -> bool:
    if start["status"] not in _STOPGAPS:
        return False
    kinds = [value for name, value in start.get("headers", ()) if name.lower() == b"content-type"]
    return kinds == [] or kinds[0].startswith(b"text/plain")


def _has_body(headers: dict[str, str]) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _context(headers: dict[str, str], row: RowIdentity | None) -> CallContext:
    """Return the call context of a request. `row`: the rollout named in the path, for callers that
    do not send Palestra's headers.
    """
    context = context_from_headers(headers)
    # In-process calls keep the caller's context, which also holds the rollout's activity.
    caller = current_call()
    if caller.row is not None:
        return caller
    return replace(context, row=context.row or row, activity=Activity("its own code"))


def _token_missing(server: str) -> WrongSetting:
    return WrongSetting(
        f"{server} asks for its fleet's token",
        hint="give every command the same ++fleet_token",
        cause=KnownCause.NO_TOKEN,
    )


def _strayed(server: str, worker: str) -> InfraError:
    return InfraError(
        f"the session of this request belongs to worker {worker} of {server}, but another worker "
        "received the request",
        hint="call the server through server_client, which finds the worker by its cookie",
    )


def _needs_session(scope: Message) -> bool:
    return scope["method"] == "POST" and scope["path"] not in _NEEDS_NO_SESSION


def _session_lost(server: str) -> InfraError:
    return InfraError(
        f"{server} was restarted during this rollout: the session that it had opened is gone",
        hint="another attempt opens a new session; find out why the server was restarted",
    )


def _timed_out(
    server: str, path: str, context: CallContext, left_s: float | None, expired: BaseException
) -> DeadlineExceeded:
    """Return the error of a call whose rollout had `left_s` seconds left when the call began.
    `expired`: the exception of its time limit.
    """
    line = authors_line(expired)
    doing = context.activity.describe() if context.activity is not None else "its own work"
    where = f" at {line}" if line else ""
    limit = "" if left_s is None else f"; this call had {left_s:.1f} s left of its rollout's time"
    return DeadlineExceeded(
        f"{server}{path}: the deadline passed while awaiting {doing}{where}{limit}",
        hint=f"raise {TIME_LIMIT}, or find out why this endpoint is slow",
        evidence=CallEvidence(traceback=line),
    )


async def _answer_failure(send: Send, failure: CallError) -> None:
    body = to_body(failure)
    request_fields = {name: body.pop(name) for name in ("verify_request",) if name in body}
    await _send_json(
        send, status_for(failure), encoded_with(body, request_fields) or encode_json(body)
    )


async def _answer(send: Send, status: int, body: Any) -> None:
    await _send_json(send, status, encode_json(body))


async def _send_json(send: Send, status: int, raw: bytes) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(raw)).encode()),
            ],
        }
    )
    await send({"type": "http.response.body", "body": raw})
