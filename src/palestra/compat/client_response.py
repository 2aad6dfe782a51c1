"""The answer of a server, as the authors of NeMo Gym's servers read it."""

from collections.abc import Mapping
from functools import cached_property
from http.cookies import SimpleCookie
from typing import Any, Final, Self

from palestra.compat.http import ServerRefused
from palestra.config import ServerType
from palestra.errors import (
    AgentError,
    CallError,
    CallEvidence,
    Hop,
    RowError,
    excerpt,
    from_body,
    without_answer,
)
from palestra.schema import encode_json
from palestra.transport import HttpReply, ServerReply, fault_of, is_tool_path, tool_failure_text


class ClientResponse:
    """One HTTP response, with the attribute names of aiohttp's response.

    `cookies` also contains the cookies of the request: a server returns a session cookie only when
    it changes, and existing agents send the cookies of the last response again.
    """

    def __init__(
        self,
        reply: ServerReply,
        *,
        method: str,
        sent_cookies: Mapping[str, str],
        path: str = "",
        server_type: str = "",
    ) -> None:
        """`server_type`: of an error; empty otherwise. The body of a tool's error is the short text
        for a model, because agents pass it on; `raise_for_status` has the whole error.
        """
        self._full_body = reply.content.body
        self._path = path
        self._server_type = server_type
        self.is_tool_lost = False
        """Whether the tool gave no answer, because a call that it made failed."""
        if method == "POST" and server_type == ServerType.RESOURCES and is_tool_path(path):
            reply, self.is_tool_lost = _for_the_model(reply)
        self._reply = reply
        self.is_examined = False
        """Whether the author's code has looked at the status."""
        self.reason = ""
        self.method = method
        self.url = reply.url
        self.headers = reply.headers
        self.content = reply.content
        self.content_type = str(reply.headers.get("content-type", "")).partition(";")[0]
        self._sent_cookies = sent_cookies

    @property
    def status(self) -> int:
        """The HTTP status."""
        self.is_examined = True
        return self._reply.status

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        self.is_examined = True
        return self._reply.ok

    @cached_property
    def cookies(self) -> SimpleCookie:
        """The cookies of the request and of the response."""
        # Made when asked for: to quote one takes longer than a small request.
        cookies: SimpleCookie = SimpleCookie()
        for name, value in {**self._sent_cookies, **self._reply.cookies}.items():
            cookies[name] = value
        return cookies

    async def read(self) -> bytes:
        """Return the body as bytes."""
        return await self._reply.read()

    async def text(self, *_how: Any, **_options: Any) -> str:
        """Return the body as text."""
        return await self._reply.text()

    async def json(self, *_how: Any, **_options: Any) -> Any:
        """Return the body, parsed as JSON."""
        return await self._reply.json()

    def release(self) -> None:
        """Do nothing: the body has already been read, so no connection is held."""

    close = release

    def raise_for_status(self) -> None:
        """Raise `ServerRefused`, an `aiohttp.ClientResponseError`, for a status of 400 or more."""
        if not self.ok:
            content = self._full_body
            failure = _failure(self._reply.server, self.url, self.status, content)
            raise ServerRefused(self.url, self.status, content, failure)

    def failure(self) -> CallError:
        """Return the error that a server's answer stands for, with its server and status.

        It is an error of the agent where an environment refuses the request, as the agent made it,
        and for a tool's error, which the agent is to read.
        """
        server, status, body = self._reply.server, self._reply.status, self._full_body
        text = excerpt(body)
        failure = _failure(server, self.url, status, body) or fault_of(
            self._server_type, self._path
        )(
            f"{server} answered {status}: {text[:500]}",
            status=status,
            evidence=CallEvidence(hops=(Hop(server, self.url, status, text),)),
        )
        is_environment = self._server_type == ServerType.RESOURCES
        if is_environment and (isinstance(failure, RowError) or is_tool_path(self._path)):
            return AgentError(failure.message, hint=_LOOK_AT_STATUS, evidence=failure.evidence)
        return failure

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_why: object) -> None:
        self.release()


_LOOK_AT_STATUS: Final = (
    "correct the call in the agent; `await raise_for_status(answer)` after a call stops at such an "
    "answer"
)


def _for_the_model(reply: ServerReply) -> tuple[ServerReply, bool]:
    """Return a tool's error reply with the text that a model may read, without evidence such as
    paths; and whether a call of the tool's own had failed.
    """
    refusal = _json(reply.content.body)
    failure = from_body(refusal)
    if failure is None:
        return reply, False
    text = tool_failure_text(failure, refusal)
    body = encode_json({"error": failure.message}) if text is None else text.encode()
    short = HttpReply(reply.status, body, reply.headers, reply.cookies)
    return ServerReply(short, server=reply.server, url=reply.url), text is None


def _json(content: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _failure(server: str, url: str, status: int, content: bytes) -> CallError | None:
    failure = from_body(_json(content))
    if failure is None:
        return None
    hops = (Hop(server, url, status, excerpt(without_answer(content))), *failure.evidence.hops)
    failure.evidence = CallEvidence(
        hops=hops,
        row=failure.evidence.row,
        problems=failure.evidence.problems,
        traceback=failure.evidence.traceback,
    )
    return failure
