"""Calls of an author's client to a server in the same process, without HTTP.

The reply is the one that HTTP would carry: status, JSON body, session cookie. What this short path
cannot do is left to the fleet's client.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Final, final

import orjson

from palestra.compat.direct_routes import DirectRoute
from palestra.config import ServerType
from palestra.errors import CallError, status_for, to_body
from palestra.schema import encode_json, fields_of
from palestra.server import SESSION_ID_KEY, Server
from palestra.transport import (
    IN_PROCESS,
    HttpReply,
    ServerClient,
    Target,
    asking,
    awaiting,
    calling,
    cookie_header,
    current_call,
    new_id,
    note_tool_failures,
    note_verify_request,
    within_call_limit,
)

MOST_COOKIES: Final = 50_000
"""The largest number of session cookies of one server that are remembered."""

_JSON_HEADERS: Final = {"content-type": "application/json"}
_TEXT_HEADERS: Final = {"content-type": "text/plain; charset=utf-8"}


@final
class CallsHere:
    """POST requests to one server of this process, with the errors of the fleet's `client`."""

    def __init__(self, client: ServerClient, target: Target, server: Server) -> None:
        self._client = client
        self._target = target
        self._server = server
        self._is_environment = target.server_type == ServerType.RESOURCES
        self._sessions: OrderedDict[str, str] = OrderedDict()
        """Session ids by the value of their cookies: to sign or check one takes longer than a small
        request."""

    async def post(self, path: str, body: Any, cookies: Mapping[str, str]) -> HttpReply | None:
        """Return the reply to `body`; None when only the fleet's client can send it."""
        endpoint = self._server.typed_endpoint(path)
        if endpoint is None:
            return None
        cookie = self._server.session_cookie
        cookie_value = cookies.get(cookie.name)
        session_id = None if cookie_value is None else self._session_of(cookie_value)
        if cookie_value is not None and session_id is None:
            return None
        note_verify_request(path, body)
        # The receiver gets values of its own, with the fields that were set, as over HTTP.
        plain = orjson.loads(encode_json(body)) if body is not None else {}
        is_new = session_id is None
        session_id = session_id or new_id()
        context = current_call()
        inside = context.inside_environment() if self._is_environment else context
        noting = asking(self._target, path, plain)
        with awaiting(self._target, path), calling(inside), noting as question:
            reply = await self._reply(endpoint, path, plain, session_id, cookies)
            if reply.status >= HTTPStatus.BAD_REQUEST and question.is_kept:
                question.refused(self._client.failure(self._target, IN_PROCESS + path, reply))
        note_tool_failures(path, reply.body)
        if not is_new:
            return reply
        new_cookies = _Cookies(partial(self._new_cookie, session_id), reply.cookies)
        return HttpReply(reply.status, reply.body, reply.headers, new_cookies)

    async def _reply(
        self, endpoint: Any, path: str, body: Any, session_id: str, cookies: Mapping[str, str]
    ) -> HttpReply:
        name = self._target.name
        try:
            if isinstance(endpoint, DirectRoute):
                called = endpoint.call(body, session_id=session_id, cookies=cookies)
                return await within_call_limit(path, called, server=name)
            invoked = endpoint.invoke(body, session_id=session_id)
            result = await within_call_limit(path, invoked, server=name)
        except CallError as error:
            return HttpReply(status_for(error), encode_json(to_body(error)), _JSON_HEADERS)
        if endpoint.is_tool:
            return HttpReply(HTTPStatus.OK, result.encode(), _TEXT_HEADERS)
        fields = fields_of(result) if hasattr(result, "model_fields_set") else result
        return HttpReply(HTTPStatus.OK, encode_json(fields), _JSON_HEADERS)

    def _session_of(self, cookie_value: str) -> str | None:
        session_id = self._sessions.get(cookie_value)
        if session_id is not None:
            return session_id
        cookie = self._server.session_cookie
        stored = cookie.read(cookie_header({cookie.name: cookie_value})) or {}
        # A session with more than its id is in the cookie alone.
        if stored.keys() != {SESSION_ID_KEY}:
            return None
        return self._remembered(cookie_value, stored[SESSION_ID_KEY])

    def _new_cookie(self, session_id: str) -> dict[str, str]:
        cookie = self._server.session_cookie
        value = cookie.write({SESSION_ID_KEY: session_id}).partition(";")[0].partition("=")[2]
        self._remembered(value, session_id)
        return {cookie.name: value}

    def _remembered(self, cookie_value: str, session_id: str) -> str:
        self._sessions[cookie_value] = session_id
        if len(self._sessions) > MOST_COOKIES:
            self._sessions.popitem(last=False)
        return session_id


@final
class _Cookies(Mapping[str, str]):
    """The cookies of a reply that opened a session. The session's cookie is signed when the cookies
    are first read, as most are not.
    """

    def __init__(self, new_cookie: Callable[[], dict[str, str]], others: Mapping[str, str]) -> None:
        self._new_cookie = new_cookie
        self._others = others

    @cached_property
    def _values(self) -> dict[str, str]:
        return {**self._new_cookie(), **self._others}

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
