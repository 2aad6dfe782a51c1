"""Before the first rollout: is every model endpoint there, and does it take our key?"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from palestra.cli.console import notice
from palestra.config import ResolvedConfig, ServerType
from palestra.errors import CallError, Hopeless, RunFailed
from palestra.serving import Fleet, ModelServer, ask_endpoint
from palestra.transport import ServerClient

READY_TIMEOUT_S = 60.0
"""How long an endpoint that may still be starting is waited for."""
ASK_AGAIN_S = 2.0
FIRST_LINE_S = 2.0
LINE_EVERY_S = 60.0
WAITING_LONGER = "model_endpoint_readiness_timeout_seconds"

Check = Callable[[], Awaitable[str]]
"""What an endpoint said of itself. Raises `CallError` when it cannot be reached."""


async def wait_for_endpoints(fleet: Fleet) -> None:
    """Ask the endpoint of every embedded model server whether it is there.

    Raises what the endpoint said when it rejects the key, and RunFailed when it does not answer
    in time.
    """
    servers = [fleet.server(name) for name in fleet.instances]
    checks = {server.name: _masked(server) for server in servers if isinstance(server, ModelServer)}
    await _wait_for_all(checks, _limit(fleet.config))


def _masked(server: ModelServer) -> Check:
    async def check() -> str:
        return server.server_client.mask(await server.check())

    return check


async def ask_endpoints(client: ServerClient, config: ResolvedConfig) -> None:
    """`wait_for_endpoints` for the model servers of a running fleet, over HTTP."""

    def check_of(name: str) -> Check:
        async def check() -> str:
            return (await ask_endpoint(client, name)).text

        return check

    models = [
        name for name, target in client.targets.items() if target.server_type == ServerType.MODEL
    ]
    await _wait_for_all({name: check_of(name) for name in models}, _limit(config))


def _limit(config: ResolvedConfig) -> float:
    given = config.tree.get(WAITING_LONGER)
    return READY_TIMEOUT_S if given is None else float(given)


async def _wait_for_all(checks: Mapping[str, Check], limit_s: float) -> None:
    async with asyncio.TaskGroup() as tasks:
        for name, check in checks.items():
            tasks.create_task(_wait_for(name, check, limit_s), name=f"endpoint of {name}")


class Pace:
    """When the next line about the same wait is due: after 2, 4, 8 seconds, then once a minute."""

    def __init__(self) -> None:
        self._next_s = FIRST_LINE_S

    def is_due(self, elapsed_s: float) -> bool:
        """Whether to say it now, so many seconds into the wait; if so, it counts as said."""
        if elapsed_s < self._next_s:
            return False
        self._next_s = elapsed_s + min(elapsed_s, LINE_EVERY_S)
        return True


async def _wait_for(name: str, check: Check, limit_s: float) -> None:
    started, pace = time.monotonic(), Pace()
    deadline = started + limit_s
    while True:
        try:
            notice(f"{name}: {await check()}")
        except Hopeless:
            raise
        except CallError as error:
            if time.monotonic() >= deadline:
                raise RunFailed(
                    f"{name} has no endpoint after {limit_s:.0f} s: {error.message}",
                    hint="is base_url right, and is the endpoint running? "
                    f"++{WAITING_LONGER}=<seconds> waits longer",
                ) from error
            now = time.monotonic()
            if pace.is_due(now - started):
                left = max(0.0, deadline - now)
                notice(
                    f"{name}: waiting for its endpoint, {left:.0f} s more "
                    f"(++{WAITING_LONGER}): {error.message}"
                )
            await asyncio.sleep(ASK_AGAIN_S)
        else:
            return
