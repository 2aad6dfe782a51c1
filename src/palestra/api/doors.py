"""Find out what the servers of a configuration accept, before any server runs."""

import asyncio
from collections.abc import Callable, Iterable

from palestra.config import InstanceConfig, ResolvedConfig
from palestra.datasets import RowEndpoint
from palestra.errors import PalestraError
from palestra.fleet import build_server, server_client, start_timeout_of, starting_within
from palestra.rollouts import AgentRoute, doors_behind
from palestra.transport import ServerClient, Target


def doors_of_agents(
    config: ResolvedConfig, agents: Iterable[str], *, report: Callable[[str], None]
) -> dict[str, list[RowEndpoint]]:
    """Return for each agent the endpoints that it and its environments publish.

    A server that cannot be built here is left out, and `report` gets a warning.
    """
    return asyncio.run(_doors(config, [config.instance(name) for name in agents], report))


async def _doors(
    config: ResolvedConfig, agents: list[InstanceConfig], report: Callable[[str], None]
) -> dict[str, list[RowEndpoint]]:
    targets: dict[str, Target] = {}
    client = server_client(targets, config.tree)
    routes = [AgentRoute.of(agent) for agent in agents]
    names = [name for route in routes for name in (route.agent, *route.environments)]
    try:
        for name in dict.fromkeys(names):
            if name in config.instances:
                _put(config.instance(name), client, targets, report)
        return await doors_behind(client, routes)
    finally:
        await client.http.aclose()


def _put(
    instance: InstanceConfig,
    client: ServerClient,
    targets: dict[str, Target],
    report: Callable[[str], None],
) -> None:
    """Build a server without starting it, and add it to `targets`, so that its schema can be
    requested.
    """
    try:
        with starting_within(start_timeout_of(client.tree)):
            server = build_server(instance, client)
        server.asgi_app()
    except Exception as error:  # an author's code; what rows need of it cannot be asked then
        why = error.message if isinstance(error, PalestraError) else f"{error!r}"
        report(f"warning: rows are not checked against the request model of {instance.name}: {why}")
        return
    targets[instance.name] = Target(instance.name, instance.type, local=server)
