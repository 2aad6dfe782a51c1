"""`nemo_gym.server_utils`: servers, the client with which they call each other, and HTTP requests."""

from typing import Any

from aiohttp import ClientResponse, ClientResponseError, ClientSession
from pydantic import BaseModel, ConfigDict

from palestra.compat.addresses import get_server_url
from palestra.compat.client import ServerClient
from palestra.compat.http import (
    get_response_json,
    global_client,
    raise_for_status,
    request,
    set_global_client,
)
from palestra.compat.nemo_gym.config_types import (
    BaseRunServerConfig,
    BaseRunServerInstanceConfig,
    BaseServerConfig,
)
from palestra.compat.nemo_gym.global_config import (
    get_first_server_config_dict,
    get_global_config_dict,
)
from palestra.compat.servers import (
    BaseServer,
    SimpleServer,
    is_nemo_gym_fastapi_entrypoint,
    is_nemo_gym_fastapi_worker,
)
from palestra.observability import apply_rollout_prefix, rollout_path_prefix
from palestra.server import SESSION_ID_KEY


class GlobalAIOHTTPAsyncClientConfig(BaseModel):
    """The settings of the HTTP client that `request` uses: its largest numbers of connections."""

    model_config = ConfigDict(extra="ignore")

    global_aiohttp_connector_limit: int = 100 * 1024
    global_aiohttp_connector_limit_per_host: int = 1024
    global_aiohttp_client_request_debug: bool = False


class HeadServer(SimpleServer):
    """The head server of a fleet. Only the fleet itself starts it."""

    config: BaseRunServerInstanceConfig


def get_global_aiohttp_client(*_config: Any, **_options: Any) -> ClientSession:
    """Return the HTTP client of the running event loop, made at its first use."""
    return global_client()


def set_global_aiohttp_client(cfg: GlobalAIOHTTPAsyncClientConfig) -> ClientSession:
    """Make the HTTP client of the running event loop with these settings, and return it."""
    return set_global_client(
        limit=cfg.global_aiohttp_connector_limit,
        limit_per_host=cfg.global_aiohttp_connector_limit_per_host,
    )


def is_global_aiohttp_client_request_debug_enabled() -> bool:
    """Whether the configuration has `global_aiohttp_client_request_debug` on."""
    return bool(get_global_config_dict().get("global_aiohttp_client_request_debug", False))


def setup_server_client(head_server_config: Any = None) -> ServerClient:
    """Return a client of the fleet whose head server is at `head_server_config`.

    Default: the fleet of this process's configuration.
    """
    return ServerClient.load_from_global_config(head_server_config)


__all__ = [
    "SESSION_ID_KEY",
    "BaseRunServerConfig",
    "BaseRunServerInstanceConfig",
    "BaseServer",
    "BaseServerConfig",
    "ClientResponse",
    "ClientResponseError",
    "GlobalAIOHTTPAsyncClientConfig",
    "HeadServer",
    "ServerClient",
    "SimpleServer",
    "apply_rollout_prefix",
    "get_first_server_config_dict",
    "get_global_aiohttp_client",
    "get_global_config_dict",
    "get_response_json",
    "get_server_url",
    "is_global_aiohttp_client_request_debug_enabled",
    "is_nemo_gym_fastapi_entrypoint",
    "is_nemo_gym_fastapi_worker",
    "raise_for_status",
    "request",
    "rollout_path_prefix",
    "set_global_aiohttp_client",
    "setup_server_client",
]
