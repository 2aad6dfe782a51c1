"""Where the servers of a fleet are: as the configuration of a process says, or the fleet's head server."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from omegaconf import DictConfig, OmegaConf

from palestra.compat.nemo_gym.config_types import BaseServerConfig
from palestra.compat.nemo_gym.global_config import (
    DEFAULT_HEAD_SERVER_PORT,
    get_first_server_config_dict,
)
from palestra.config import ConfigTree, read_settings
from palestra.fleet import HeadAddress, attach, http_transport
from palestra.transport import Target

SERVER_TYPES: Final = ("responses_api_models", "resources_servers", "responses_api_agents")
POLL_TIMEOUT_S: Final = 5.0


def head_server_of(tree: Any) -> BaseServerConfig:
    """Return the host and port of the head server that the configuration `tree` names."""
    address = HeadAddress.from_tree(tree)
    return BaseServerConfig(host=address.host, port=address.port or DEFAULT_HEAD_SERVER_PORT)


def configuration_here() -> DictConfig:
    """Return the configuration of this process."""
    # Asked of that module when called: tests of the field replace the function there.
    from palestra.compat.nemo_gym import server_utils

    return server_utils.get_global_config_dict()


def server_type_of(tree: ConfigTree, name: str) -> str:
    """Return the type of the instance `name`; "" when the configuration has no such instance."""
    value = tree.get(name)
    by_type = value if isinstance(value, Mapping) else {}
    return next((server_type for server_type in SERVER_TYPES if server_type in by_type), "")


def polled(url: str) -> str:
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


def get_server_url(server_name: str, global_config_dict: Any = None) -> str:
    """Return the URL `http://host:port` of one instance of this fleet."""
    config = configuration_here() if global_config_dict is None else global_config_dict
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


def targets_in(tree: ConfigTree) -> dict[str, Target]:
    """Return the servers of which the configuration `tree` has a port."""
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


def targets_of_fleet(head: HeadAddress, tree: ConfigTree) -> dict[str, Target]:
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


def own_settings() -> dict[str, Any]:
    """Return what env.yaml says about the head server of a fleet."""
    return read_settings(["head_server", "fleet_token"])


def plain_tree(tree: Any) -> dict[str, Any]:
    """Return a configuration as a dict, with its references resolved."""
    plain: Any = (
        OmegaConf.to_container(tree, resolve=True) if isinstance(tree, DictConfig) else tree
    )
    return dict(plain or {})
