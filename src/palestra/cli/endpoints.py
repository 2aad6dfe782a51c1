"""Before the first rollout: is every model endpoint there, and does it take our key?"""

import asyncio
import time
from collections.abc import Iterable

from palestra.cli.console import notice
from palestra.errors import CallError, Hopeless, RunFailed
from palestra.serving import Fleet, ModelServer

READY_TIMEOUT_S = 60.0
"""How long an endpoint that may still be starting is waited for."""
ASK_AGAIN_S = 2.0
WAITING_LONGER = "model_endpoint_readiness_timeout_seconds"


async def wait_for_endpoints(fleet: Fleet) -> None:
    """Ask the endpoint of every embedded model server whether it is there.

    Raises what the endpoint said when it rejects the key, and RunFailed when it does not answer
    in time.
    """
    limit_s = float(fleet.config.tree.get(WAITING_LONGER) or READY_TIMEOUT_S)
    async with asyncio.TaskGroup() as tasks:
        for server in _model_servers(fleet):
            tasks.create_task(_wait_for(server, limit_s), name=f"endpoint of {server.name}")


def _model_servers(fleet: Fleet) -> Iterable[ModelServer]:
    found = (fleet.server(name) for name in fleet.instances)
    return [server for server in found if isinstance(server, ModelServer)]


async def _wait_for(server: ModelServer, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            found = await server.check()
            notice(server.server_client.mask(f"{server.name}: {found}"))
        except Hopeless:
            raise
        except CallError as error:
            if time.monotonic() >= deadline:
                raise RunFailed(
                    f"{server.name} has no endpoint after {limit_s:.0f} s: {error.message}",
                    hint="is base_url right, and is the endpoint running? "
                    f"++{WAITING_LONGER}=<seconds> waits longer",
                ) from error
            notice(f"{server.name}: waiting for its endpoint ({error.message})")
            await asyncio.sleep(ASK_AGAIN_S)
        else:
            return
