"""`nemo_gym.server_utils`: servers, the client with which they call each other, and HTTP requests."""

from aiohttp import ClientResponse, ClientResponseError

from palestra.compat.client import ServerClient, get_server_url
from palestra.compat.http import (
    get_response_json,
    global_client,
    raise_for_status,
    request,
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
from palestra.compat.servers import BaseServer, SimpleServer, is_nemo_gym_fastapi_entrypoint
from palestra.server import SESSION_ID_KEY

get_global_aiohttp_client = global_client


class HeadServer(SimpleServer):
    """The head server of a fleet. Only the fleet itself starts it."""

    config: BaseRunServerInstanceConfig


__all__ = [
    "SESSION_ID_KEY",
    "BaseRunServerConfig",
    "BaseRunServerInstanceConfig",
    "BaseServer",
    "BaseServerConfig",
    "ClientResponse",
    "ClientResponseError",
    "HeadServer",
    "ServerClient",
    "SimpleServer",
    "get_first_server_config_dict",
    "get_global_aiohttp_client",
    "get_global_config_dict",
    "get_response_json",
    "get_server_url",
    "is_nemo_gym_fastapi_entrypoint",
    "raise_for_status",
    "request",
]
