"""`ServerClient`: calls a server of the fleet, wherever that server runs.

A call is sent to its server, retried when a retry is safe, and its failure is raised as a
`CallError`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import orjson

from palestra.config import ConfigTree, ServerType
from palestra.errors import (
    CallError,
    ConfigError,
    DeadlineExceeded,
    Hop,
    InfraError,
    RowError,
    add_hop,
    add_row,
    excerpt,
    from_body,
    mask_error,
    without_answer,
)
from palestra.schema import encode_json
from palestra.transport.answered import AnsweredRollouts, exchange_line
from palestra.transport.blocked import BlockedServer
from palestra.transport.context import context_headers, current_call
from palestra.transport.http import HttpReply, HttpRequest, HttpTransport
from palestra.transport.local import (
    IN_PROCESS,
    LocalServer,
    ServerRequest,
    Target,
    call_asgi,
    with_query,
)
from palestra.transport.patience import Refusals, within_call_limit
from palestra.transport.peer import Peer, awaiting, json_or_none
from palestra.transport.retry import (
    REPORT_EVERY_S,
    WITHIN_FLEET,
    RetryCount,
    RetryPolicy,
    RetryReport,
    with_retries,
)
from palestra.transport.unanswered import asking
from palestra.transport.unverified import fault_of, note_tool_failures, note_verify_request
from palestra.transport.workers import worker_url


def changes(before: bytes, after: bytes) -> list[str]:
    """Return JSON pointers to the differences between two encodings of one request, in order."""
    if before == after:
        return []
    return list(_differing(orjson.loads(before), orjson.loads(after), ""))


def _differing(before: Any, after: Any, pointer: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key in before and key in after:
                yield from _differing(before[key], after[key], f"{pointer}/{key}")
            else:
                yield f"{pointer}/{key}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (left_value, right_value) in enumerate(zip(before, after, strict=True)):
            yield from _differing(left_value, right_value, f"{pointer}/{number}")
    else:
        yield pointer or "/"


logger = logging.getLogger("palestra.transport")

NOTICED_WITHIN_S: Final = 2.0
"""The time in seconds in which a fleet notices that one of its processes has ended. The connections of
that process break at once."""
_NOT_THE_SERVERS_OWN = frozenset({408, 429, 502, 503, 504})
"""Statuses of a proxy, or of a server that is too busy: the request was rejected and never ran."""


class BodyReader:
    """The `content` of a reply, for code that was written for a streaming client."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def read(self) -> bytes:
        """Return the whole body."""
        return self.body


class ServerReply:
    """The reply to a generic request. Its attributes have the names of the HTTP client that authors
    know.
    """

    def __init__(self, reply: HttpReply, *, server: str, url: str) -> None:
        self._reply = reply
        self.server = server
        self.url = url
        self.status = reply.status
        self.headers = reply.headers
        self.content = BodyReader(reply.body)

    @cached_property
    def cookies(self) -> dict[str, str]:
        """The cookies that the reply sets."""
        return dict(self._reply.cookies)

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    async def read(self) -> bytes:
        """Return the body."""
        return self._reply.body

    async def text(self) -> str:
        """Return the body as text."""
        return self._reply.body.decode("utf-8", "replace")

    async def json(self) -> Any:
        """Return the body as JSON. Raises ValueError: the body is not JSON."""
        return orjson.loads(self._reply.body)


class ServerClient:
    """Calls servers by instance name: in this process if they run here, else over HTTP.

    `request`, `get` and `post` are generic. `peer` opens one rollout's conversation with one
    server, with typed calls and its own cookies.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        http: HttpTransport,
        *,
        policy: RetryPolicy = WITHIN_FLEET,
        debug: bool = False,
        token: str = "",
        mask: Callable[[str], str] = str,
        tree: ConfigTree | None = None,
    ) -> None:
        self.targets = targets
        self.http = http
        self.tree: ConfigTree = {} if tree is None else tree
        """The fleet's resolved configuration, for servers that read more than their own settings."""
        self.policy = policy
        self.debug = debug
        """Whether every request is to be logged."""
        self.mask = mask
        """A text without the secrets of the configuration."""
        self.retries = RetryCount()
        self._token = token
        self.answered = AnsweredRollouts(sees_all=self._has_all_models)
        """Which rollouts the model servers of this process have answered."""
        self.refusals = Refusals()
        """What each run has met at the endpoints of those model servers."""
        self.blocked_servers: Callable[[], Sequence[BlockedServer]] = tuple
        """The server processes whose event loops are blocked now, as their fleet knows."""
        self.ask_fleet: Callable[[float], Awaitable[None]] = _nothing_to_ask
        """Brings `blocked_servers` up to date when another process watches the servers. Raises
        ServerDied: the fleet has ended, or ends within so many seconds."""
        self.ending_failure: Callable[[], CallError | None] = _no_failure
        """Returns the failure of the rollout whose call ended the fleet; None without one."""

    async def raise_fleet_end(self, error: CallError) -> None:
        """Raise ServerDied when the fleet has ended, which explains `error`.

        A server that has sent no reply may have ended just now: wait for its fleet to notice it.
        """
        hops = error.evidence.hops
        is_without_reply = bool(hops) and hops[-1].status is None
        await self.ask_fleet(NOTICED_WITHIN_S if is_without_reply else 0.0)

    def standing_still(self) -> list[str]:
        """Return one sentence for each server process whose event loop is blocked now."""
        return [blocked.message for blocked in self.blocked_servers()]

    def _has_all_models(self) -> bool:
        """Whether at most one process runs model servers. If this client serves some, it is this
        process.
        """
        models = [
            target for target in self.targets.values() if target.server_type == ServerType.MODEL
        ]
        elsewhere = sum(max(1, len(model.urls)) for model in models if model.local is None)
        return elsewhere + any(model.local is not None for model in models) <= 1

    def target(self, name: str) -> Target:
        """Return the location of server `name`. Raises ConfigError: the fleet has no such instance."""
        try:
            return self.targets[name]
        except KeyError:
            instance_names = ", ".join(sorted(self.targets)) or "none"
            raise ConfigError(
                f"no server instance is named {name!r}",
                hint=f"instances of this fleet: {instance_names}",
            ) from None

    def peer(self, name: str, *, cookies: Mapping[str, str] | None = None) -> Peer:
        """Return a conversation with server `name`, which continues the session in `cookies` if
        given.
        """
        return Peer(self, self.target(name), cookies)

    async def request(
        self,
        server_name: str,
        url_path: str,
        *,
        method: str = "POST",
        json: Any = None,
        cookies: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        stateless: bool = False,
    ) -> ServerReply:
        """Send one request and return its reply, with any status. Raises `CallError`: no reply
        came.
        """
        target = self.target(server_name)
        note_verify_request(url_path, json)
        body = encode_json(json) if json is not None else b""
        request = ServerRequest(
            method, url_path, body, cookies, params, headers, stateless=stateless
        )
        with awaiting(target, url_path):
            url = worker_url(server_name, target.urls, cookies)
            reply = await self.exchange(target, url, request)
        note_tool_failures(url_path, reply.body)
        return ServerReply(reply, server=server_name, url=_url(target, url_path))

    async def add_retries_of_servers(self) -> None:
        """Add to `retries` what model servers in other processes have sent again. One that does not
        answer is left out.
        """
        sources = [
            (target, url)
            for target in self.targets.values()
            if target.server_type == ServerType.MODEL and target.local is None
            for url in target.urls
        ]
        await asyncio.gather(*(self._add_retries_of(target, url) for target, url in sources))

    async def _add_retries_of(self, target: Target, url: str) -> None:
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        request = HttpRequest("GET", f"{url}/", headers, timeout_s=REPORT_EVERY_S, direct=True)
        with suppress(CallError):
            reply = await self.http.send(request)
            report = RetryReport.from_status(reply.body) or RetryReport(0, "", "")
            self.retries.add_report(f"{target.name} {url}", report)

    async def forward(
        self,
        server_name: str,
        method: str,
        path: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        cookies: Mapping[str, str],
        session_id: str | None,
    ) -> HttpReply:
        """Send a request that another process made, and return the reply. Raises `CallError`."""
        target = self.target(server_name)
        request = ServerRequest(method, path, body, cookies, headers=headers, session_id=session_id)
        return await self.exchange(target, worker_url(server_name, target.urls, cookies), request)

    async def post(self, server_name: str, url_path: str, **kwargs: Any) -> ServerReply:
        """Send a POST request; see `request`."""
        return await self.request(server_name, url_path, method="POST", **kwargs)

    async def get(self, server_name: str, url_path: str, **kwargs: Any) -> ServerReply:
        """Send a GET request; see `request`."""
        return await self.request(server_name, url_path, method="GET", **kwargs)

    async def exchange(self, target: Target, base_url: str, request: ServerRequest) -> HttpReply:
        """Send `request` with the caller's context, and retry when a retry is safe.

        Return the reply, with any status. Raises `CallError`, with `target` among its hops: no
        reply came. Raises ConfigError: the path does not begin with a slash.
        """
        _require_slash(target, request.path)
        headers = {**context_headers(current_call()), **(request.headers or {})}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if target.local is not None:
            url = IN_PROCESS + request.path
            where, direct_call = f"{target.name} {url}", _sent_here(target.local, request, headers)
        else:
            headers["content-type"] = "application/json"
            where = url = base_url + with_query(request.path, request.params)
            direct_call = self._sent_out(target, url, request, headers)
        with asking(target, request.path, request.body) as question:
            try:
                reply = await within_call_limit(request.path, direct_call, server=target.name)
            except CallError as error:
                message = error.message
                self.log_exchange(request.method, where, request.body, message, headers=headers)
                raise self.attributed(error, Hop(target.name, url)) from None
            if reply.status >= 400 and question.is_kept:
                question.refused(self.failure(target, url, reply))
        if self.debug:
            answer, status = excerpt(without_answer(reply.body)), reply.status
            self.log_exchange(
                request.method, where, request.body, answer, headers=headers, status=status
            )
        return reply

    async def _sent_out(
        self, target: Target, url: str, request: ServerRequest, headers: Mapping[str, str]
    ) -> HttpReply:
        async def send(remaining_s: float | None) -> HttpReply:
            return await self.http.send(
                HttpRequest(
                    request.method,
                    url,
                    headers,
                    request.body,
                    request.cookies,
                    remaining_s,
                    request.stateless,
                    direct=True,
                )
            )

        try:
            return await with_retries(
                send,
                what=f"{target.name} ({url})",
                stateless=request.stateless,
                policy=self.policy,
                count=self.retries,
            )
        except DeadlineExceeded as error:
            if error.message.startswith(url):
                error.message = f"{target.name} ({url}){error.message.removeprefix(url)}"
            raise

    def failure(self, target: Target, url: str, reply: HttpReply) -> CallError:
        """Return the error for a reply with status 400 or more, with this server as its outermost
        hop.
        """
        error, text = from_body(json_or_none(reply.body)), ""
        if error is None:
            text = excerpt(reply.body)
            error = _foreign_failure(target, url, reply.status, text)
        return self.attributed(error, Hop(target.name, url, reply.status, text))

    def attributed(self, error: CallError, hop: Hop) -> CallError:
        """Return the error of a call with its row and outermost hop added, and its secrets masked."""
        add_hop(add_row(error, current_call().row), hop)
        mask_error(error, self.mask)
        return error

    def tell_changes(self, where: str, before: bytes, after: bytes) -> None:
        """Log the fields that a server changed in a request that it received."""
        if changed := changes(before, after):
            logger.error(
                "%s changed the request it was given, at %s: other code uses the same object; "
                "copy it before you change it",
                where,
                ", ".join(sorted(changed)[:10]),
            )

    def log_exchange(
        self,
        method: str,
        url: str,
        request: Any,
        answer: str,
        *,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> None:
        """Log a request, its row and its reply on one line, when `debug` is on.

        `status` is None when no reply came. A failed request is logged as an error.
        """
        if not self.debug:
            return
        line = exchange_line(
            method, url, current_call().row, headers or {}, request, status, answer
        )
        level = logging.ERROR if status is None or status >= 400 else logging.INFO
        logger.log(level, "%s", self.mask(line))


async def _sent_here(
    server: LocalServer, request: ServerRequest, headers: Mapping[str, str]
) -> HttpReply:
    return await call_asgi(
        server.asgi_app(),
        request.method,
        request.path,
        body=request.body,
        headers=headers,
        cookies=request.cookies,
        params=request.params,
        session_id=request.session_id,
    )


def _require_slash(target: Target, path: str) -> None:
    """Raise ConfigError unless `path` begins with a slash: the rest would be part of the port."""
    if path and path[0] not in "/?":
        correction = f"write '/{path}'" if "://" not in path else "write the path alone, '/…'"
        raise ConfigError(
            f"the path {path!r} of a call to {target.name} does not begin with '/': {correction}"
        )


def _no_failure() -> None:
    return None


async def _nothing_to_ask(_within_s: float) -> None:
    return None


def _url(target: Target, path: str) -> str:
    return (target.urls[0] if target.urls else IN_PROCESS) + path


def _foreign_failure(target: Target, url: str, status: int, text: str) -> CallError:
    message = f"{target.name} answered {status}: {text[:500]}"
    if status == 422:
        return RowError(message, status=status)
    if target.server_type != ServerType.MODEL and status in _NOT_THE_SERVERS_OWN:
        return InfraError(message, status=status)
    return fault_of(target.server_type, url.partition("?")[0])(message, status=status)
