"""Serve a client's rollouts on a socket until the task is cancelled, or the fleet is gone."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from palestra.errors import RunFailed
from palestra.fleet import listen_at, serving
from palestra.training.contract import RolloutSource
from palestra.training.service.app import RolloutService, service_token

LOOK_EVERY_S: Final = 1.0
LAST_WORDS_S: Final = 30.0
"""How long the service of a fleet that is gone tells its clients why, before it ends."""


async def serve_rollouts(
    source: RolloutSource,
    host: str,
    port: int,
    *,
    lease_s: float,
    ready: Callable[[str], object],
) -> None:
    """Enter `source`, and serve it. `ready` gets the address when requests are answered.

    Raises ConfigError: there is no token beyond this machine, or the port is in use. Raises
    RunFailed: no rollout can come back any more.
    """
    token = service_token(host)
    with listen_at(host, port) as sock:
        async with source:
            service = RolloutService(source, token=token, lease_s=lease_s)
            # The service ends first: streams that wait are told why, before the socket closes.
            async with serving(service.app(), sock), service:
                ready(f"http://{host}:{sock.getsockname()[1]}")
                await _until_gone(source)


async def _until_gone(source: RolloutSource) -> None:
    """Wait until no rollout has been able to come back for so long that clients know why."""
    well_at = time.monotonic()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        health = await source.health()
        if health.ok:
            well_at = time.monotonic()
        elif time.monotonic() - well_at > LAST_WORDS_S:
            raise RunFailed(f"the fleet of the rollout service is gone: {health.reason}")
