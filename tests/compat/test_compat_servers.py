"""`nemo_gym.server_utils`, `nemo_gym.rollout_correlation` and the bases of an environment."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from bare_apps import ROW, client_of, server_of
from fastapi import FastAPI, Request
from hosted_apps import run
from omegaconf import OmegaConf
from pydantic import BaseModel, ConfigDict, ValidationError

from palestra.compat.nemo_gym import server_utils
from palestra.compat.nemo_gym.base_resources_server import (
    BaseMultiRewardVerifyResponse,
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from palestra.compat.nemo_gym.rollout_correlation import (
    ROLLOUT_ID_PATTERN,
    RolloutContextMiddleware,
    current_rollout_id,
    maybe_rollout_id_from_run_body,
    rollout_context,
)
from palestra.compat.nemo_gym.server_utils import ServerClient
from palestra.errors import ConfigError
from palestra.fleet import Fleet
from palestra.rollouts.reverification.modes import check_modes


class Told(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.get("/rollout")(self.rollout)
        return app

    async def rollout(self, request: Request) -> list[str | None]:
        return [current_rollout_id(), request.url.path]

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


# nemo_gym.server_utils


@pytest.mark.parametrize(
    ("rollout_id", "token_capture", "prefix"),
    [
        (None, False, ""),
        (None, True, ""),
        ("3-1", False, "/ng-rollout/3-1"),
        ("3-1", True, "/ng-rollout/3-1/training-token-capture"),
    ],
)
def test_server_utils_rollout_path_prefix_and_apply_rollout_prefix(
    rollout_id: str | None, token_capture: bool, prefix: str
) -> None:
    made = server_utils.rollout_path_prefix(rollout_id, token_capture=token_capture)
    url = server_utils.apply_rollout_prefix("http://h:1/", rollout_id, token_capture=token_capture)

    assert made == prefix
    assert url == (f"http://h:1{prefix}" if rollout_id else "http://h:1/")


def test_server_utils_is_global_aiohttp_client_request_debug_enabled_reads_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = OmegaConf.create({"global_aiohttp_client_request_debug": True})
    for config, is_on in ((tree, True), (OmegaConf.create({}), False)):
        monkeypatch.setattr(server_utils, "get_global_config_dict", lambda c=config: c)
        assert server_utils.is_global_aiohttp_client_request_debug_enabled() is is_on


def test_the_head_server_is_where_every_command_looks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = OmegaConf.create({"default_host": "there", "head_server": {"port": None}})
    monkeypatch.setattr(server_utils, "get_global_config_dict", lambda: tree)

    address = ServerClient.load_head_server_config()

    assert (address.host, address.port) == ("there", 11000)


def test_server_utils_names_looked_up_in_the_module_may_be_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = OmegaConf.create({"head_server": {"host": "there", "port": 4}})
    monkeypatch.setattr(server_utils, "get_global_config_dict", lambda: tree)

    client = ServerClient.load_from_global_config()

    assert client.global_config_dict is tree
    assert (client.head_server_config.host, client.head_server_config.port) == ("there", 4)
    assert server_utils.setup_server_client().global_config_dict is tree
    monkeypatch.setattr(server_utils, "set_global_aiohttp_client", None)
    monkeypatch.setattr(server_utils, "setup_server_client", None)


def test_server_utils_set_global_aiohttp_client_makes_the_client_that_requests_use() -> None:
    async def check() -> None:
        config = server_utils.GlobalAIOHTTPAsyncClientConfig(global_aiohttp_connector_limit=7)
        client = server_utils.set_global_aiohttp_client(config)
        assert client.connector is not None
        assert client.connector.limit == 7
        assert server_utils.get_global_aiohttp_client() is client
        await client.close()

    asyncio.run(check())


def instances(**ports: int) -> ServerClient:
    tree: dict[str, Any] = {
        name: {"responses_api_models": {"m": {"host": "127.0.0.1", "port": port}}}
        for name, port in ports.items()
    }
    tree["head_server"] = {"host": "127.0.0.1", "port": ports.get("head", 1)}
    config = OmegaConf.create(tree)
    head = server_utils.BaseServerConfig(host="127.0.0.1", port=ports.get("head", 1))
    return ServerClient(head_server_config=head, global_config_dict=config)


def test_server_client_build_server_base_url_works_unbound_and_may_be_replaced() -> None:
    client = instances(one=5)
    settings = OmegaConf.create({"host": "h", "port": 9})
    build = partial(ServerClient._build_server_base_url, client)
    made = ServerClient.model_construct()
    made._build_server_base_url = lambda _: "http://other"

    assert build(settings) == "http://h:9"
    assert made._build_server_base_url(settings) == "http://other"


@pytest.fixture
def refusing_port() -> Iterator[int]:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_server_client_poll_for_status_answers_without_being_awaited(refusing_port: int) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = instances(up=refusing_port, down=unused.getsockname()[1], head=refusing_port)
        assert client.poll_for_status("up") == "success"
        assert client.poll_for_status("down") == "connection_error"
    assert client.poll_for_status("head_server") == "success"
    assert client.poll_for_status("unheard_of") == "unknown_error"


def test_server_client_poll_for_status_gives_up_on_a_server_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("palestra.compat.addresses.POLL_TIMEOUT_S", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert instances(slow=silent.getsockname()[1]).poll_for_status("slow") == "timeout"


@pytest.mark.parametrize("is_observed", [True, False])
def test_server_client_request_names_the_current_rollout_in_the_paths_of_captured_calls(
    is_observed: bool, tmp_path: Path
) -> None:
    prefix = "/ng-rollout/2-0" if is_observed else ""
    config = {"observability_enabled": is_observed}

    def paths_with(client: ServerClient, name: str, path: str) -> str:
        return client._prefixed(name, path)

    tree = {
        "m": {"responses_api_models": {"m": {}}},
        "e": {"resources_servers": {"e": {}}},
        "a": {"responses_api_agents": {"a": {}}},
        **config,
    }
    head = server_utils.BaseServerConfig()
    client = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create(tree))
    with rollout_context("2-0"):
        for path in ("/v1/responses", "/v1/chat/completions", "/v1/messages"):
            assert paths_with(client, "m", path) == f"{prefix}{path}"
        assert paths_with(client, "e", "/verify") == f"{prefix}/verify"
        assert paths_with(client, "e", "/seed_session") == "/seed_session"
        assert paths_with(client, "a", "/v1/responses") == "/v1/responses"
        assert paths_with(client, "m", "/ng-rollout/9-9/v1/responses").count("ng-rollout") == 1
    assert paths_with(client, "m", "/v1/responses") == "/v1/responses"


# nemo_gym.rollout_correlation


class OpenBody(BaseModel):
    model_config = ConfigDict(extra="allow")


@pytest.mark.parametrize("of", [dict, lambda fields: OpenBody(**fields)])
@pytest.mark.parametrize(
    ("fields", "rollout_id"),
    [
        ({}, None),
        ({"_ng_task_index": 3}, None),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0}, "3-0"),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0, "_ng_attempt_index": 0}, "3-0"),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0, "_ng_attempt_index": 2}, "3-0-a2"),
        ({"_ng_rollout_id": "mine.1", "_ng_task_index": 3, "_ng_rollout_index": 0}, "mine.1"),
    ],
)
def test_rollout_correlation_maybe_rollout_id_from_run_body(
    of: Any, fields: dict[str, Any], rollout_id: str | None
) -> None:
    assert maybe_rollout_id_from_run_body(of(fields)) == rollout_id


def test_rollout_correlation_refuses_a_malformed_id() -> None:
    assert ROLLOUT_ID_PATTERN.fullmatch("a/b") is None
    with pytest.raises(ValueError, match="a/b"):
        maybe_rollout_id_from_run_body({"_ng_rollout_id": "a/b"})


def test_rollout_correlation_rollout_context_ends() -> None:
    with rollout_context("1-2"):
        assert current_rollout_id() == "1-2"
    assert current_rollout_id() is None


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/rollout", [None, "/rollout"]),
        ("/ng-rollout/7-1/rollout", ["7-1", "/rollout"]),
        ("/ng-rollout/7-1/training-token-capture/rollout", ["7-1", "/rollout"]),
    ],
)
def test_rollout_context_middleware_is_a_layer_of_every_environment(
    path: str, answer: list[str | None]
) -> None:
    app = server_of(Told).setup_webserver()

    assert client_of(app).get(path).json() == answer
    assert RolloutContextMiddleware in [layer.cls for layer in app.user_middleware]


def test_rollout_context_middleware_leaves_a_malformed_id_in_the_path() -> None:
    client = client_of(server_of(Told).setup_webserver())

    assert client.get("/ng-rollout/-x/rollout").status_code == 404


# nemo_gym.base_resources_server


def test_base_multi_reward_verify_response_needs_reward_components() -> None:
    fields = {**ROW, "reward": 1.0}

    answer = BaseMultiRewardVerifyResponse(**fields, reward_components={"style": 0.5})

    assert answer.reward_components == {"style": 0.5}
    with pytest.raises(ValidationError):
        BaseMultiRewardVerifyResponse(**fields)


class StatelessConfig(BaseResourcesServerConfig):
    REVERIFY_MODE = ReverifyMode.STATELESS


class Stateless(Told):
    config: StatelessConfig


class Overriding(Told):
    async def get_reverify_mode(self) -> ReverifyMode:
        return ReverifyMode.UNSUPPORTED


@pytest.mark.parametrize(
    ("cls", "mode"), [(Told, "unknown"), (Stateless, "stateless"), (Overriding, "unsupported")]
)
def test_reverify_mode_of_the_settings_class_is_answered_as_a_bare_string(
    cls: Any, mode: str
) -> None:
    server = server_of(cls)

    assert asyncio.run(server.get_reverify_mode()) == mode
    assert client_of(server.setup_webserver()).get("/reverify_mode").json() == mode


MODES = """
class Config(BaseResourcesServerConfig):
    {declared}
class Env(SimpleResourcesServer):
    config: Config
    async def verify(self, {request} body: BaseVerifyRequest) -> BaseVerifyResponse: ...
"""


@pytest.mark.parametrize(
    ("declared", "request_", "mode"),
    [
        ("REVERIFY_MODE = ReverifyMode.STATELESS", "request: Request,", "stateless"),
        ("REVERIFY_MODE = ReverifyMode.REPLAY_TOOLS", "request: Request,", "replay_tools"),
        ("pass", "", "unknown"),
        ("pass", "request: Request,", "unknown"),
    ],
)
def test_reverify_reads_the_bare_mode_of_a_hosted_environment(
    declared: str, request_: str, mode: str, tmp_path: Path
) -> None:
    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.get("env", "/reverify_mode")
        assert orjson.loads(await reply.read()) == mode
        # A verifier that cannot reach the session needs none.
        if mode == "unknown" and request_:
            with pytest.raises(ConfigError):
                await check_modes(fleet.client, {"env"}, force=False)
        else:
            sessions = await check_modes(fleet.client, {"env"}, force=False)
            assert not sessions.forced
            assert bool(sessions.replayed) == (mode == "replay_tools")

    source = MODES.format(declared=declared, request=request_)
    run(tmp_path, {"resources_servers/env": source}, check)
