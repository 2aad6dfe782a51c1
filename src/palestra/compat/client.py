"""nemo_gym's `ServerClient`, implemented over Palestra's own client."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property
from typing import Any, Final

from omegaconf import DictConfig
from pydantic import BaseModel, ConfigDict, PrivateAttr, SkipValidation

from palestra.compat.addresses import (
    configuration_here,
    head_server_of,
    own_settings,
    plain_tree,
    polled,
    server_type_of,
    targets_in,
    targets_of_fleet,
)
from palestra.compat.agent_calls import (
    MODEL_PATHS,
    SEED_SESSION,
    VERIFY,
    depends_on_session,
    failed_in_new_session,
    note_lost_session,
    note_refusal,
)
from palestra.compat.calls_here import CallsHere
from palestra.compat.client_response import ClientResponse
from palestra.compat.http import cookie_values
from palestra.compat.nemo_gym.config_types import BaseServerConfig
from palestra.compat.nemo_gym.global_config import (
    DEFAULT_HEAD_SERVER_PORT,
    get_first_server_config_dict,
)
from palestra.compat.refused_answers import RefusedAnswers, answers_of_call
from palestra.compat.rows import is_replaying, recorded_reply
from palestra.config import ServerType
from palestra.errors import (
    CallError,
    DeadlineExceeded,
)
from palestra.fleet import HeadAddress, server_client
from palestra.observability import current_rollout_id, prefixed_path, rollout_path_prefix
from palestra.server import Server
from palestra.transport import (
    HttpReply,
    ServerReply,
    note_answered,
    note_unanswered,
)
from palestra.transport import ServerClient as FleetClient

logger: Final = logging.getLogger("palestra.server")

HEAD_SERVER: Final = "head_server"

_CAPTURED_PATHS: Final = {
    "responses_api_models": {"/v1/responses", "/v1/chat/completions", "/v1/messages"},
    "resources_servers": {"/verify"},
}
"""The paths whose calls are captured, by type of the server."""


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
        client = cls(head_server_config=head_server_of(tree), global_config_dict=tree)
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
        return head_server_of(configuration_here() or own_settings())

    @classmethod
    def load_from_global_config(cls, head_server_config: Any = None) -> "ServerClient":
        """Return a client of the fleet whose head server is at `head_server_config`.

        Default: the fleet of this process's configuration.
        """
        return cls(
            head_server_config=head_server_config or cls.load_head_server_config(),
            global_config_dict=configuration_here(),
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
            return polled(self._build_server_base_url(settings))
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
        answers = answers_of_call()
        is_failed_verify = not reply.ok and path == VERIFY
        if (
            answers is not None
            and is_failed_verify
            and await self._is_session_lost(answers, reply.server, cookies)
        ):
            reply = failed_in_new_session(reply, answers.where)
        response = ClientResponse(
            reply, method=method, sent_cookies=cookies, path=path, server_type=server_type
        )
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
        elif path == VERIFY and await self._is_session_lost(answers, server, cookies):
            message = note_lost_session(answers.where, server)
            if message not in self._warnings:
                self._warnings.add(message)
                logger.warning("%s", message)

    async def _is_session_lost(
        self, answers: RefusedAnswers, server: str, cookies: Mapping[str, str]
    ) -> bool:
        is_lost = answers.sessions.is_lost(server, cookies)
        return is_lost and await depends_on_session(self._client(), server)

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
            tree = plain_tree(self.global_config_dict) or own_settings()
            token = str(tree.get("fleet_token") or "")
            targets = targets_in(tree)
            if not targets:
                address = self.head_server_config
                head = HeadAddress(address.host, address.port or DEFAULT_HEAD_SERVER_PORT, token)
                targets = targets_of_fleet(head, tree)
            self._fleet = server_client(targets, tree, token=token)
        return self._fleet


def is_observed(tree: Any) -> bool:
    """Whether the model calls of the fleet with the configuration `tree` are captured."""
    return isinstance(tree, Mapping) and bool(tree.get("observability_enabled"))


def _is_in_process(fleet: FleetClient, server: str) -> bool:
    target = fleet.targets.get(server)
    return target is not None and not target.urls


def _seconds(timeout: Any) -> float | None:
    if timeout is None or isinstance(timeout, int | float):
        return timeout
    total: float | None = getattr(timeout, "total", None)
    return total
