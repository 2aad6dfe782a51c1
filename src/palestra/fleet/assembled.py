"""Some servers of a configuration, in this process, with others in the place of the rest.

For whoever looks at an environment closely: no head server, no sockets, and a model that is made
up where the configuration names one.
"""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass

from palestra.config import ResolvedConfig
from palestra.fleet.build import build_server, server_client, start_server, starting
from palestra.fleet.importing import start_timeout_of, starting_within
from palestra.server import Server
from palestra.transport import ServerClient, Target


@dataclass(frozen=True, slots=True)
class Assembly:
    """The servers by name, and how to call them."""

    servers: Mapping[str, Server]
    client: ServerClient


@contextlib.asynccontextmanager
async def assembled(
    config: ResolvedConfig,
    names: Collection[str],
    stand_ins: Mapping[str, Server] | None = None,
) -> AsyncIterator[Assembly]:
    """Start the instances `names`; under the names of `stand_ins` those answer instead.

    Raises ConfigError for an instance whose settings are wrong, ServerDied for one that does not
    start.
    """
    targets: dict[str, Target] = {}
    client = server_client(targets, config.tree)
    servers: dict[str, Server] = {}
    try:
        for name, made in (stand_ins or {}).items():
            made.server_client = client
            servers[name] = made
            targets[name] = Target(name, _type_of(config, name), local=made)
        limit_s = start_timeout_of(config.tree)
        for name in names:
            if name in servers:
                continue
            instance = config.instance(name)
            with starting_within(limit_s):
                servers[name] = build_server(instance, client)
            targets[name] = Target(name, instance.type, local=servers[name])
        for name, server in servers.items():
            with starting_within(limit_s), starting(name):
                await start_server(server)
        yield Assembly(servers, client)
    finally:
        for server in servers.values():
            with contextlib.suppress(Exception):
                await server.shut_down()
        await client.http.aclose()


def _type_of(config: ResolvedConfig, name: str) -> str:
    known = config.instances.get(name)
    return "responses_api_models" if known is None else known.type
