"""`ServerClient`: how any part of a fleet calls a server of it, wherever that server lives."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from palestra.config import ServerType
from palestra.errors import CallError, ConfigError, RowIdentity
from palestra.schema import encode_json
from palestra.transport.answered import AnsweredRollouts
from palestra.transport.calls import Caller, Target
from palestra.transport.http import HttpReply, HttpTransport
from palestra.transport.local import IN_PROCESS
from palestra.transport.patience import Refusals
from palestra.transport.peer import Peer
from palestra.transport.retry import WITHIN_FLEET, RetryPolicy
from palestra.transport.unverified import note_verify_request
from palestra.transport.workers import worker_url


class BodyReader:
    """The `content` of a reply, for code written against a streaming client."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def read(self) -> bytes:
        """The whole body."""
        return self.body


class ServerReply:
    """An answer to a generic request; the names are those of the client authors know."""

    def __init__(self, reply: HttpReply, *, server: str, url: str) -> None:
        self._reply = reply
        self.server = server
        self.url = url
        self.status = reply.status
        self.headers = reply.headers
        self.cookies = dict(reply.cookies)
        self.content = BodyReader(reply.body)

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    async def read(self) -> bytes:
        """The body."""
        return self._reply.body

    async def text(self) -> str:
        """The body as text."""
        return self._reply.body.decode("utf-8", "replace")

    async def json(self) -> Any:
        """The body as JSON. Raises ValueError when it is not."""
        return orjson.loads(self._reply.body)


class ServerClient:
    """Calls servers by instance name: in this process when they live here, else over HTTP.

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
        tree: Mapping[str, Any] | None = None,
    ) -> None:
        self.targets = targets
        self.http = http
        self.tree: Mapping[str, Any] = {} if tree is None else tree
        """The fleet's resolved configuration, for servers that read more than their own settings."""
        self.policy = policy
        self._caller = Caller(http, policy=policy, debug=debug, token=token, mask=mask)
        self.retries = self._caller.retries
        self.answered = AnsweredRollouts(sees_all=self._has_all_models)
        """Which rollouts the model servers of this process have answered."""
        self.refusals = Refusals()
        """What each run has met at the endpoints of those model servers."""
        self.overrun_of: Callable[[RowIdentity], CallError | None] = _nobody_knows
        """The failure of a rollout whose own call holds a server process, as its fleet knows."""
        self.standing_still: Callable[[], Sequence[str]] = tuple
        """Sentences about the server processes that stand still now, as their fleet knows."""

    @property
    def debug(self) -> bool:
        """Whether every request is to be logged."""
        return self._caller.debug

    def mask(self, text: str) -> str:
        """`text` without the secrets of the configuration."""
        return self._caller.mask(text)

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
        """Say on one line what was asked, for which row, and what came of it; when debugging."""
        self._caller.log_exchange(method, url, request, answer, headers=headers, status=status)

    def _has_all_models(self) -> bool:
        """Whether at most one process has model servers: this one, where this client serves some."""
        models = [each for each in self.targets.values() if each.server_type == ServerType.MODEL]
        elsewhere = sum(max(1, len(each.urls)) for each in models if each.local is None)
        return elsewhere + any(each.local is not None for each in models) <= 1

    def target(self, name: str) -> Target:
        """Where `name` is. Raises ConfigError when the fleet has no such instance."""
        try:
            return self.targets[name]
        except KeyError:
            known = ", ".join(sorted(self.targets)) or "none"
            raise ConfigError(
                f"no server instance is named {name!r}", hint=f"instances of this fleet: {known}"
            ) from None

    def peer(self, name: str, *, cookies: Mapping[str, str] | None = None) -> Peer:
        """A conversation with server `name`, continuing the session in `cookies` if given."""
        return Peer(self._caller, self.target(name), cookies)

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
        """One request; any status is an answer. Raises `CallError` when none came."""
        target = self.target(server_name)
        note_verify_request(url_path, json)
        body = encode_json(json) if json is not None else b""
        reply = await self._caller.exchange(
            target,
            worker_url(server_name, target.urls, cookies),
            method,
            url_path,
            body=body,
            cookies=cookies,
            params=params,
            headers=headers,
            stateless=stateless,
        )
        return ServerReply(reply, server=server_name, url=_url(target, url_path))

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
        """A request as another process made it, sent from here. Raises `CallError`."""
        target = self.target(server_name)
        return await self._caller.exchange(
            target,
            worker_url(server_name, target.urls, cookies),
            method,
            path,
            body=body,
            cookies=cookies,
            headers=headers,
            session_id=session_id,
        )

    async def post(self, server_name: str, url_path: str, **kwargs: Any) -> ServerReply:
        """`request` with POST."""
        return await self.request(server_name, url_path, method="POST", **kwargs)

    async def get(self, server_name: str, url_path: str, **kwargs: Any) -> ServerReply:
        """`request` with GET."""
        return await self.request(server_name, url_path, method="GET", **kwargs)


def _nobody_knows(_row: RowIdentity) -> None:
    return None


def _url(target: Target, path: str) -> str:
    return (target.urls[0] if target.urls else IN_PROCESS) + path
