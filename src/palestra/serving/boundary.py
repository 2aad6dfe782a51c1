"""The one middleware of every server: session, context, and the rendering of failures.

Pure ASGI, and a single layer: each function-style middleware would cost more than the
framework below it.
"""

import asyncio
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, final

from itsdangerous import BadSignature, Signer

from palestra.errors import CallError, DeadlineExceeded, WrongSetting, status_for, to_body
from palestra.schema import encode_json
from palestra.serving.authors_errors import ESCAPES, stops_this_task
from palestra.serving.sessions import SESSION_ID_KEY
from palestra.transport import (
    SESSION_SCOPE_KEY,
    Activity,
    ASGIApp,
    CallContext,
    calling,
    context_from_headers,
    current_call,
    new_id,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@final
class SessionCookie:
    """The signed cookie that carries a session: `{ClassName}___{instance}`."""

    def __init__(self, name: str, secret: str) -> None:
        self.name = name
        self._signer = Signer(secret, salt=name)

    def read(self, cookie_header: str) -> dict[str, Any] | None:
        """What the cookie holds, or None when it is absent or was not signed by us."""
        if self.name not in cookie_header:
            return None
        parsed: SimpleCookie = SimpleCookie()
        try:
            parsed.load(cookie_header)
            raw = self._signer.unsign(parsed[self.name].value)
            held = json.loads(b64decode(raw))
        except (BadSignature, CookieError, KeyError, ValueError):
            return None
        return held if isinstance(held, dict) else None

    def write(self, held: dict[str, Any]) -> str:
        """A Set-Cookie header's value."""
        signed = self._signer.sign(b64encode(json.dumps(held).encode())).decode()
        return f"{self.name}={signed}; path=/; httponly; samesite=lax"


@final
class Boundary:
    """Wraps an app: whatever leaves it is an answer or an error envelope, never a traceback."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        server: str,
        cookie: SessionCookie,
        on_error: Callable[[str, BaseException], CallError],
        token: str = "",
    ) -> None:
        self._app = app
        self._server = server
        self._cookie = cookie
        self._on_error = on_error
        self._token = token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not self._allowed(headers, scope):
            await _answer(send, 401, to_body(_token_missing(self._server)))
            return
        send, started = self._with_session(scope, headers, send)
        context = _context(headers)
        limit = asyncio.timeout(context.remaining_s())
        try:
            with calling(context):
                async with limit:
                    await self._app(scope, receive, send)
        except CallError as error:
            failure = error
        except ESCAPES as error:
            if stops_this_task(error):
                raise
            # An author's own TimeoutError is a bug of theirs, not our deadline.
            failure = (
                _timed_out(self._server, scope["path"], context)
                if limit.expired()
                else self._on_error(scope["path"], error)
            )
        else:
            return
        if not started():
            await _answer(send, status_for(failure), to_body(failure))

    def _allowed(self, headers: dict[str, str], scope: Message) -> bool:
        if not self._token or SESSION_SCOPE_KEY in scope:
            return True
        given = headers.get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, f"Bearer {self._token}".encode())

    def _with_session(
        self, scope: Message, headers: dict[str, str], send: Send
    ) -> tuple[Send, Callable[[], bool]]:
        """Put the session into the scope, and its cookie on the answer when it is new."""
        given = scope.get(SESSION_SCOPE_KEY)
        held = self._cookie.read(headers.get("cookie", ""))
        if given and (held is None or held.get(SESSION_ID_KEY) != given):
            held = {SESSION_ID_KEY: given}
        session: dict[str, Any] = held or {}
        session.setdefault(SESSION_ID_KEY, new_id())
        scope["session"] = session
        before = None if held is None else dict(session)
        begun = False

        async def send_with_cookie(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if session != before:
                    cookie = self._cookie.write(session).encode("latin-1")
                    message["headers"] = [*message.get("headers", ()), (b"set-cookie", cookie)]
            await send(message)

        return send_with_cookie, lambda: begun


def _context(headers: dict[str, str]) -> CallContext:
    context = context_from_headers(headers)
    # In-process calls keep the caller's context, which also holds the rollout's activity.
    own = current_call()
    if own.row is not None:
        return own
    return CallContext(
        row=context.row, deadline=context.deadline, activity=Activity("its own code")
    )


def _token_missing(server: str) -> WrongSetting:
    return WrongSetting(
        f"{server} asks for its fleet's token", hint="give every command the same ++fleet_token"
    )


def _timed_out(server: str, path: str, context: CallContext) -> DeadlineExceeded:
    doing = context.activity.describe() if context.activity is not None else "its own work"
    return DeadlineExceeded(
        f"{server}{path}: the deadline passed while awaiting {doing}",
        hint="raise rollout_timeout, or find out why it is slow",
    )


async def _answer(send: Send, status: int, body: Any) -> None:
    raw = encode_json(body)
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
