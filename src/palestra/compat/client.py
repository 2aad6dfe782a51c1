"""nemo_gym's `ServerClient`, implemented over Palestra's own client."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from http.cookies import SimpleCookie
from typing import Any, Final, Self
from urllib.parse import urlsplit

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, PrivateAttr, SkipValidation

from palestra.compat.agent_calls import (
    MODEL_PATHS,
    SEED_SESSION,
    VERIFY,
    depends_on_session,
    note_lost_session,
    note_refusal,
)
from palestra.compat.calls_here import CallsHere
from palestra.compat.http import ServerRefused, cookie_values
from palestra.compat.nemo_gym.config_types import BaseServerConfig
from palestra.compat.nemo_gym.global_config import (
    DEFAULT_HEAD_SERVER_PORT,
    get_first_server_config_dict,
)
from palestra.compat.refused_answers import RefusedAnswers, answers_of_call
from palestra.compat.rows import is_replaying, recorded_reply
from palestra.config import ConfigTree, ServerType, read_settings
from palestra.errors import (
    AgentError,
    CallError,
    CallEvidence,
    DeadlineExceeded,
    Hop,
    RowError,
    excerpt,
    from_body,
    without_answer,
)
from palestra.fleet import HeadAddress, attach, http_transport, server_client
from palestra.observability import current_rollout_id, prefixed_path, rollout_path_prefix
from palestra.schema import encode_json
from palestra.server import Server
from palestra.transport import (
    HttpReply,
    ServerReply,
    Target,
    fault_of,
    is_tool_path,
    note_answered,
    note_unanswered,
    tool_failure_text,
)
from palestra.transport import ServerClient as FleetClient

logger: Final = logging.getLogger("palestra.server")

SERVER_TYPES: Final = ("responses_api_models", "resources_servers", "responses_api_agents")
HEAD_SERVER: Final = "head_server"
POLL_TIMEOUT_S: Final = 5.0

_CAPTURED_PATHS: Final = {
    "responses_api_models": {"/v1/responses", "/v1/chat/completions", "/v1/messages"},
    "resources_servers": {"/verify"},
}
"""The paths whose calls are captured, by type of the server."""


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


class ServerClient(BaseModel):
    """A client that calls the servers of a fleet by instance name.

    A client made from a configuration alone calls each server at its configured `host` and `port`.
    Where the configuration has no server, as in a script of its own, the head server says where they
    are.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    head_server_config: SkipValidation[BaseServerConfig]
    """Host and port of the head server."""

    global_config_dict: SkipValidation[DictConfig]
    """The resolved configuration, with the host and port of every instance."""

    _fleet: FleetClient | None = PrivateAttr(default=None)
    _in_fleet: bool = PrivateAttr(default=False)

    @classmethod
    def of_fleet(cls, fleet: FleetClient, tree: DictConfig) -> "ServerClient":
        """Return a client that sends its calls through `fleet`; `tree` is the fleet's
        configuration.
        """
        client = cls(head_server_config=_head_server(tree), global_config_dict=tree)
        client._fleet = fleet
        client._in_fleet = True
        return client

    @cached_property
    def _calls_here(self) -> dict[str, CallsHere | None]:
        # Not a private attribute: pydantic looks those up in several steps.
        return {}

    @cached_property
    def _warnings(self) -> set[str]:
        """What has been logged: a slip comes in every rollout."""
        return set()

    @property
    def is_in_fleet(self) -> bool:
        """Whether a Palestra fleet made this client, for a server that it hosts."""
        return self._in_fleet

    @classmethod
    def load_head_server_config(cls) -> BaseServerConfig:
        """Return the configured host and port of the head server: those of env.yaml in a process
        without a configuration.
        """
        return _head_server(_global_config_dict() or _own_settings())

    @classmethod
    def load_from_global_config(cls, head_server_config: Any = None) -> "ServerClient":
        """Return a client of the fleet whose head server is at `head_server_config`.

        Default: the fleet of this process's configuration.
        """
        return cls(
            head_server_config=head_server_config or cls.load_head_server_config(),
            global_config_dict=_global_config_dict(),
        )

    async def request(
        self, server_name: str, url_path: str, method: str = "POST", **kwargs: Any
    ) -> ClientResponse:
        """Send one request. `json` may be or contain pydantic models. No status raises an error.

        With `observability_enabled`, the path of a captured call names the current rollout. A
        fleet's own client sends the rollout in headers instead.
        """
        cookies = cookie_values(kwargs.pop("cookies", None)) or {}
        timeout_s = _seconds(kwargs.pop("timeout", None))
        recorded = None
        if method == "POST" and is_replaying():
            recorded = self._recorded(server_name, url_path, kwargs.get("json"))
        if recorded is not None:
            reply = ServerReply(recorded, server=server_name, url=url_path)
            return ClientResponse(reply, method=method, sent_cookies=cookies)
        request_fields = {
            name: kwargs[name] for name in ("json", "params", "headers") if name in kwargs
        }
        limit = (
            nullcontext()
            if timeout_s is None
            else self._within(timeout_s, server_name, url_path, kwargs.get("json"))
        )
        async with limit:
            if method == "POST" and kwargs.keys() <= {"json"}:
                calls = self._short_path(server_name)
                answer = calls and await calls.post(url_path, kwargs.get("json"), cookies)
                if answer:
                    reply = ServerReply(answer, server=server_name, url=f"in-process{url_path}")
                    return await self._response(reply, url_path, method, cookies)
            reply = await self._client().request(
                server_name,
                self._prefixed(server_name, url_path),
                method=method,
                cookies=cookies or None,
                **request_fields,
            )
        return await self._response(reply, url_path, method, cookies)

    async def get(self, server_name: str, url_path: str, **kwargs: Any) -> ClientResponse:
        """Call `request` with the method GET."""
        return await self.request(server_name, url_path, method="GET", **kwargs)

    async def post(self, server_name: str, url_path: str, **kwargs: Any) -> ClientResponse:
        """Call `request` with the method POST."""
        return await self.request(server_name, url_path, method="POST", **kwargs)

    async def put(self, server_name: str, url_path: str, **kwargs: Any) -> ClientResponse:
        """Call `request` with the method PUT."""
        return await self.request(server_name, url_path, method="PUT", **kwargs)

    async def delete(self, server_name: str, url_path: str, **kwargs: Any) -> ClientResponse:
        """Call `request` with the method DELETE."""
        return await self.request(server_name, url_path, method="DELETE", **kwargs)

    def poll_for_status(self, server_name: str) -> str:
        """Return `success` when the server answers at all, else `connection_error`, `timeout` or
        `unknown_error`. Waits at most 5 seconds. `head_server` names the head server.
        """
        if self._fleet is not None and _is_in_process(self._fleet, server_name):
            return "success"
        try:
            settings = (
                self.head_server_config
                if server_name == HEAD_SERVER
                else get_first_server_config_dict(self.global_config_dict, server_name)
            )
            return _polled(self._build_server_base_url(settings))
        except Exception:  # an unknown server, or one without an address
            return "unknown_error"

    def _build_server_base_url(self, server_config_dict: Any) -> str:
        """Return the URL `http://host:port` of an instance with these settings."""
        return f"http://{server_config_dict.host}:{server_config_dict.port}"

    def _prefixed(self, server: str, path: str) -> str:
        rollout_id = current_rollout_id()
        tree = self.global_config_dict
        is_told = self.is_in_fleet or prefixed_path(path) is not None
        if rollout_id is None or is_told or not is_observed(tree):
            return path
        captured = _CAPTURED_PATHS.get(server_type_of(tree, server), set())
        return f"{rollout_path_prefix(rollout_id)}{path}" if path in captured else path

    async def _response(
        self, reply: ServerReply, path: str, method: str, cookies: Mapping[str, str]
    ) -> ClientResponse:
        # Looked up for errors only: the configuration is slow to read.
        server_type = "" if reply.ok else server_type_of(self.global_config_dict, reply.server)
        response = ClientResponse(
            reply, method=method, sent_cookies=cookies, path=path, server_type=server_type
        )
        answers = answers_of_call()
        if answers is None:
            return response
        if reply.ok:
            await self._note_success(answers, reply, path, cookies)
        else:
            answers.note(reply.server, response if server_type else None)
            if method == "POST" and server_type == ServerType.RESOURCES:
                note_refusal(path, reply.status, reply.content.body, answers.model_reply)
        return response

    async def _note_success(
        self, answers: RefusedAnswers, reply: ServerReply, path: str, cookies: Mapping[str, str]
    ) -> None:
        """Note an answer without an error for the current call of an author's code."""
        server, sessions = reply.server, answers.sessions
        answers.note(server, None)
        if path.endswith(MODEL_PATHS):
            answers.model_reply = reply.content.body
        elif path == SEED_SESSION:
            sessions.opened(server, reply.cookies, cookies)
        elif path == VERIFY:
            is_lost = sessions.is_lost(server, cookies)
            if is_lost and await depends_on_session(self._client(), server):
                message = note_lost_session(answers.where, server)
                if message not in self._warnings:
                    self._warnings.add(message)
                    logger.warning("%s", message)

    @asynccontextmanager
    async def _within(
        self, timeout_s: float, server: str, path: str, body: Any
    ) -> AsyncIterator[None]:
        """Limit the time of a call of `server`. A model that does not answer in it is noted."""
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            if server_type_of(self.global_config_dict, server) == ServerType.MODEL:
                message = (
                    f"{server}{path} gave no answer within {timeout_s:g} s, the limit of this call"
                )
                hint = "raise the timeout of this call, or find out why the model is slow"
                note_unanswered(body, DeadlineExceeded(message, hint=hint))
            raise

    def _recorded(self, server: str, path: str, body: Any) -> HttpReply | None:
        try:
            reply = recorded_reply(server, path, body, running=server in self._client().targets)
        except CallError as error:
            note_unanswered(body, error)
            raise
        if reply is not None:
            note_answered(body)
        return reply

    def _short_path(self, server: str) -> CallsHere | None:
        """Return the short path to a server of this process; None for any other server."""
        calls_here = self._calls_here
        if server not in calls_here:
            fleet = self._fleet if self._in_fleet else None
            target = fleet.targets.get(server) if fleet is not None else None
            calls = None
            if fleet is not None and not fleet.debug and target is not None:
                local = target.local
                calls = CallsHere(fleet, target, local) if isinstance(local, Server) else None
            calls_here[server] = calls
        return calls_here[server]

    def _client(self) -> FleetClient:
        if self._fleet is None:
            tree = _plain(self.global_config_dict) or _own_settings()
            token = str(tree.get("fleet_token") or "")
            targets = _targets(tree)
            if not targets:
                address = self.head_server_config
                head = HeadAddress(address.host, address.port or DEFAULT_HEAD_SERVER_PORT, token)
                targets = _targets_of_fleet(head, tree)
            self._fleet = server_client(targets, tree, token=token)
        return self._fleet


def _head_server(tree: Any) -> BaseServerConfig:
    address = HeadAddress.from_tree(tree)
    return BaseServerConfig(host=address.host, port=address.port or DEFAULT_HEAD_SERVER_PORT)


def _global_config_dict() -> DictConfig:
    # Asked of that module when called: tests of the field replace the function there.
    from palestra.compat.nemo_gym import server_utils

    return server_utils.get_global_config_dict()


def is_observed(tree: Any) -> bool:
    """Whether the model calls of the fleet with the configuration `tree` are captured."""
    return isinstance(tree, Mapping) and bool(tree.get("observability_enabled"))


def server_type_of(tree: ConfigTree, name: str) -> str:
    """Return the type of the instance `name`; "" when the configuration has no such instance."""
    value = tree.get(name)
    by_type = value if isinstance(value, Mapping) else {}
    return next((server_type for server_type in SERVER_TYPES if server_type in by_type), "")


def _polled(url: str) -> str:
    """Return how a GET of `url` ended: `success`, `timeout` or `connection_error`."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=POLL_TIMEOUT_S)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except TimeoutError:
        return "timeout"
    except (OSError, HTTPException):
        return "connection_error"
    finally:
        connection.close()
    return "success"


def _is_in_process(fleet: FleetClient, server: str) -> bool:
    target = fleet.targets.get(server)
    return target is not None and not target.urls


def get_server_url(server_name: str, global_config_dict: Any = None) -> str:
    """Return the URL `http://host:port` of one instance of this fleet."""
    config = _global_config_dict() if global_config_dict is None else global_config_dict
    settings = get_first_server_config_dict(config, server_name)
    return f"http://{settings['host']}:{settings['port']}"


def with_addresses(tree: ConfigTree, targets: Mapping[str, Target]) -> DictConfig:
    """Return a fleet's configuration `tree` with the host and port of every instance filled in."""
    config = OmegaConf.create(dict(tree))
    for name, target in targets.items():
        settings = get_first_server_config_dict(config, name)
        url = target.urls[0] if target.urls else ""
        host, _, port = url.rpartition("://")[2].rpartition(":")
        if port.isdigit():
            settings["host"], settings["port"] = host, int(port)
    return config


def _targets(tree: ConfigTree) -> dict[str, Target]:
    targets: dict[str, Target] = {}
    for name in tree:
        kind = server_type_of(tree, name)
        if not kind:
            continue
        settings = get_first_server_config_dict(tree, name)
        if settings.get("port"):
            url = f"http://{settings.get('host') or '127.0.0.1'}:{settings['port']}"
            targets[name] = Target(name, kind, (url,))
    return targets


def _targets_of_fleet(head: HeadAddress, tree: ConfigTree) -> dict[str, Target]:
    """Return where the servers of the fleet are whose head server is at `head`.

    Raises NoFleet: none answers there. Waits: a script asks once, before its first request.
    """

    async def targets() -> dict[str, Target]:
        http = http_transport(tree)
        try:
            return (await attach(head, http)).targets()
        finally:
            await http.aclose()

    # The caller's thread may have an event loop that runs.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, targets()).result()


def _own_settings() -> dict[str, Any]:
    """Return what env.yaml says about the head server of a fleet."""
    return read_settings(["head_server", "fleet_token"])


def _plain(tree: Any) -> dict[str, Any]:
    plain: Any = (
        OmegaConf.to_container(tree, resolve=True) if isinstance(tree, DictConfig) else tree
    )
    return dict(plain or {})


def _seconds(timeout: Any) -> float | None:
    if timeout is None or isinstance(timeout, int | float):
        return timeout
    total: float | None = getattr(timeout, "total", None)
    return total
