"""`ServerClient`: how any part of a fleet calls a server of it, wherever that server lives."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, final
from urllib.parse import quote

import orjson
from pydantic import BaseModel

from palestra.errors import (
    CallError,
    ConfigError,
    Evidence,
    Hop,
    InfraError,
    ModelError,
    RowError,
    VerifierError,
    add_hop,
    add_row,
    excerpt,
    from_body,
    mask_error,
    status_for,
)
from palestra.schema import encode_json, fields_of, why_unreadable
from palestra.transport.context import context_headers, current_call
from palestra.transport.failure_line import failure_line
from palestra.transport.http import HttpReply, HttpTransport
from palestra.transport.ids import new_id
from palestra.transport.local import LocalEndpoint, LocalServer, call_asgi, with_query
from palestra.transport.retry import WITHIN_FLEET, RetryCount, RetryPolicy, with_retries
from palestra.transport.untouched import changes
from palestra.transport.workers import worker_url

logger = logging.getLogger("palestra.transport")

Reply = TypeVar("Reply", bound=BaseModel)

IN_PROCESS = "in-process"

RESERVED_PATHS = frozenset(
    {"", "run", "verify", "seed_session", "aggregate_metrics", "mcp", "docs", "openapi.json"}
)
"""Endpoint names that a model must not reach by calling a tool of that name."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where one server instance is. `urls` has one entry per worker process."""

    name: str
    server_type: str
    urls: tuple[str, ...] = ()
    local: LocalServer | None = None


class BodyReader:
    """The `content` of a reply, for code written against a streaming client."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        """The whole body."""
        return self._body


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
    ) -> None:
        self.targets = targets
        self.http = http
        self.policy = policy
        self.retries = RetryCount()
        self._debug = debug
        self._token = token
        self._mask = mask

    @property
    def debug(self) -> bool:
        """Whether every failing request is to be logged."""
        return self._debug

    def mask(self, text: str) -> str:
        """`text` without the secrets of the configuration."""
        return self._mask(text)

    def target(self, name: str) -> Target:
        """Where `name` is. Raises ConfigError when the fleet has no such instance."""
        try:
            return self.targets[name]
        except KeyError:
            known = ", ".join(sorted(self.targets)) or "none"
            raise ConfigError(
                f"no server instance is named {name!r}", hint=f"instances of this fleet: {known}"
            ) from None

    def peer(self, name: str, *, cookies: Mapping[str, str] | None = None) -> "Peer":
        """A conversation with server `name`, continuing the session in `cookies` if given."""
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
        """One request; any status is an answer. Raises `CallError` when none came."""
        target = self.target(server_name)
        body = encode_json(json) if json is not None else b""
        reply = await self.exchange(
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

    async def post(self, server_name: str, url_path: str, **kwargs: Any) -> ServerReply:
        """`request` with POST."""
        return await self.request(server_name, url_path, method="POST", **kwargs)

    async def get(self, server_name: str, url_path: str, **kwargs: Any) -> ServerReply:
        """`request` with GET."""
        return await self.request(server_name, url_path, method="GET", **kwargs)

    async def exchange(
        self,
        target: Target,
        base_url: str,
        method: str,
        path: str,
        *,
        body: bytes,
        cookies: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        session_id: str | None = None,
        stateless: bool = False,
    ) -> HttpReply:
        """One request to `target` with the caller's context, retried where that is safe."""
        sent = {**context_headers(current_call()), **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        if target.local is not None:
            reply = await call_asgi(
                target.local.asgi_app(),
                method,
                path,
                body=body,
                headers=sent,
                cookies=cookies,
                params=params,
                session_id=session_id,
            )
            self._log_refusal(method, f"{target.name} {IN_PROCESS}{path}", sent, body, reply)
            return reply
        sent["content-type"] = "application/json"
        url = base_url + with_query(path, params)

        async def send(remaining_s: float | None) -> HttpReply:
            return await self.http.send(
                method, url, headers=sent, body=body, cookies=cookies, timeout_s=remaining_s
            )

        try:
            reply = await with_retries(
                send,
                what=f"{target.name} ({url})",
                stateless=stateless,
                policy=self.policy,
                count=self.retries,
            )
        except CallError as error:
            self.log_failure(method, url, body, error.message, headers=sent)
            add_row(error, current_call().row)
            mask_error(error, self._mask)
            raise add_hop(error, Hop(target.name, self._mask(url))) from None
        self._log_refusal(method, url, sent, body, reply)
        return reply

    def failure(self, target: Target, url: str, reply: HttpReply) -> CallError:
        """What an answer of status 400 or more means, with this server as its outermost hop."""
        error = from_body(_json_or_none(reply.body))
        if error is not None:
            add_hop(error, Hop(target.name, url, reply.status))
        else:
            text = excerpt(reply.body)
            evidence = Evidence(hops=(Hop(target.name, url, reply.status, text),))
            error = _foreign_failure(target, reply.status, text, evidence)
        mask_error(error, self._mask)
        return add_row(error, current_call().row)

    def _log_refusal(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, reply: HttpReply
    ) -> None:
        if reply.status >= 400:
            answer = excerpt(reply.body)
            self.log_failure(method, url, body, answer, headers=headers, status=reply.status)

    def tell_changes(self, where: str, before: bytes, after: bytes) -> None:
        """Say what a server changed in the request that it was handed."""
        if changed := changes(before, after):
            logger.error(
                "%s changed the request it was given, at %s: others hold the same object; "
                "copy what you want to change",
                where,
                ", ".join(sorted(changed)[:10]),
            )

    def log_failure(
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
        if not self._debug:
            return
        line = failure_line(method, url, current_call().row, headers or {}, request, status, answer)
        logger.error("%s", self._mask(line))


@final
class Peer:
    """One rollout's conversation with one server: keeps that server's session between calls."""

    __slots__ = ("_base_url", "_client", "_session_id", "_target", "cookies")

    def __init__(
        self, client: ServerClient, target: Target, cookies: Mapping[str, str] | None
    ) -> None:
        self._client = client
        self._target = target
        self._base_url = worker_url(target.name, target.urls, cookies)
        self._session_id = "" if cookies else new_id()
        self.cookies: dict[str, str] = dict(cookies or {})

    @property
    def _is_model(self) -> bool:
        return self._target.server_type == "responses_api_models"

    @property
    def name(self) -> str:
        """The server's instance name."""
        return self._target.name

    async def call(
        self, path: str, body: BaseModel | Mapping[str, Any], answer: type[Reply]
    ) -> Reply:
        """POST `body` to `path`; objects in it are handed over as they are when that is possible.

        Raises `CallError` for any failure, with this server among its hops.
        """
        self._note(path)
        endpoint = self._endpoint(path)
        if endpoint is None:
            reply = await self._exchange(path, encode_json(body), stateless=self._is_model)
            return _parse(reply.body, answer, self._target, path)
        result = await self._invoke(endpoint, path, body)
        if isinstance(result, answer):
            return _as_sent(result)
        sent = fields_of(result) if isinstance(result, BaseModel) else result
        return _parse(encode_json(sent), answer, self._target, path)

    async def notify(self, path: str, body: BaseModel | Mapping[str, Any]) -> None:
        """POST `body` to `path`, whatever the answer says. Raises `CallError` for a failure."""
        self._note(path)
        endpoint = self._endpoint(path)
        if endpoint is None:
            await self._exchange(path, encode_json(body), stateless=False)
        else:
            await self._invoke(endpoint, path, body)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run a tool of the environment and give its answer as text, errors of the tool included.

        Raises `CallError` when no answer came, or when the tool's own nested call failed: that
        is no answer of the tool, and the model must not see it.
        """
        if name in RESERVED_PATHS or name.startswith("v1/"):
            return _tool_error(f"there is no tool named {name}")
        activity = current_call().activity
        if activity is not None:
            activity.now("tool", f"tool {name} of {self._target.name}")
        endpoint = self._endpoint("/" + name)
        if endpoint is not None and endpoint.is_tool:
            return str(await self._invoke(endpoint, "/" + name, arguments))
        path = "/" + quote(name, safe="", errors="replace")
        body = encode_json(arguments)
        reply = await self._send(path, body, stateless=False)
        answered = _json_or_none(reply.body) if reply.status >= 400 else None
        failure = from_body(answered)
        if failure is None:
            return reply.body.decode("utf-8", "replace")
        if (said := _said_by_the_tool(failure, answered)) is not None:
            return said
        raise self._client.failure(self._target, self._base_url + path, reply)

    def _note(self, path: str) -> None:
        activity = current_call().activity
        if activity is not None:
            activity.now(path, f"{self._target.name} {path}")

    def _endpoint(self, path: str) -> LocalEndpoint | None:
        local = self._target.local
        # A conversation that came in over HTTP has cookies, which only the app can read.
        if local is None or not self._session_id:
            return None
        return local.typed_endpoint(path)

    async def _invoke(
        self, endpoint: LocalEndpoint, path: str, body: BaseModel | Mapping[str, Any]
    ) -> Any:
        before = encode_json(body) if self._client.debug else None
        try:
            result = await endpoint.invoke(body, session_id=self._session_id)
        except CallError as error:
            url = IN_PROCESS + path
            self._client.log_failure(
                "POST", f"{self.name} {url}", body, error.message, status=status_for(error)
            )
            add_row(error, current_call().row)
            raise add_hop(error, Hop(self._target.name, url, status_for(error))) from None
        if before is not None:
            self._client.tell_changes(f"{self.name}{path}", before, encode_json(body))
        return result

    async def _exchange(self, path: str, body: bytes, *, stateless: bool) -> HttpReply:
        reply = await self._send(path, body, stateless=stateless)
        if reply.status >= 400:
            raise self._client.failure(self._target, self._base_url + path, reply)
        return reply

    async def _send(self, path: str, body: bytes, *, stateless: bool) -> HttpReply:
        reply = await self._client.exchange(
            self._target,
            self._base_url,
            "POST",
            path,
            body=body,
            cookies=self.cookies,
            session_id=self._session_id or None,
            stateless=stateless,
        )
        if reply.cookies:
            self.cookies.update(reply.cookies)
        return reply


def _foreign_failure(target: Target, status: int, text: str, evidence: Evidence) -> CallError:
    message = f"{target.name} answered {status}: {text[:500]}"
    if status == 422:
        return RowError(message, evidence=evidence, status=status)
    if target.server_type == "responses_api_models":
        return ModelError(message, evidence=evidence, status=status)
    if status in {502, 503, 504}:
        return InfraError(message, evidence=evidence, status=status)
    return VerifierError(message, evidence=evidence, status=status)


def _as_sent(result: Reply) -> Reply:
    """The object as it would arrive over HTTP: the defaults that are sent count as set."""
    given = result.model_fields_set
    told = {name: value for name, value in fields_of(result).items() if name not in given}
    return result.model_copy(update=told) if told else result


def _parse(body: bytes, answer: type[Reply], target: Target, path: str) -> Reply:
    try:
        return answer.model_validate(orjson.loads(body))
    except ValueError as error:
        text = excerpt(body)
        hop = Hop(target.name, path, 200, text)
        evidence = Evidence(hops=(hop,), row=current_call().row)
        why = why_unreadable(body, error)
        message = f"{target.name}{path} answered what is no {answer.__name__}: {why}"
        kind = ModelError if target.server_type == "responses_api_models" else VerifierError
        raise kind(message, evidence=evidence) from error


def _json_or_none(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _said_by_the_tool(failure: CallError, answered: Any) -> str | None:
    """What the model gets to read of a failed tool; None when the tool's own call failed."""
    if failure.evidence.hops:
        return None
    if "detail" in answered:
        # The answer of the route itself, in its own words.
        return encode_json({"detail": answered["detail"]}).decode()
    if failure.evidence.traceback or failure.evidence.problems:
        # It raised, or the arguments do not fit, which are the model's words.
        return _tool_error(failure.message)
    return None


def _tool_error(message: str) -> str:
    return encode_json({"error": message}).decode()


def _url(target: Target, path: str) -> str:
    return (target.urls[0] if target.urls else IN_PROCESS) + path


__all__ = [
    "BodyReader",
    "Peer",
    "ServerClient",
    "ServerReply",
    "Target",
]
