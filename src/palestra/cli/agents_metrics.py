"""Aggregate metrics of rollouts that are on disk, from their agents."""

import contextlib
from pathlib import Path
from typing import Any

from palestra.cli.console import notice
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.cli.reaching import FleetChoice, OwnFleet, find
from palestra.cli.tables import print_key_metrics
from palestra.config import ResolvedConfig
from palestra.rollouts.aggregate import aggregate


def ask_agents(
    config: ResolvedConfig, output: Path, destination: Path, *, own_fleet: bool = False
) -> None:
    """Metrics of the rollouts in `output`, from their agents, in a file and as a table.

    A running fleet is asked, unless `own_fleet` forbids it, or one is started from the
    configuration for as long as it takes.
    """

    async def ask() -> list[dict[str, Any]]:
        async with contextlib.AsyncExitStack() as stack:
            choice: FleetChoice = OwnFleet(config)
            if not own_fleet:
                choice = await stack.enter_async_context(find(config))
            # Metrics are of answers that are there already: no model is needed, it may be gone.
            fleet = await stack.enter_async_context(choice.open(models=False))
            return await aggregate(fleet.client, output, destination)

    try:
        found = run_to_end(ask())
    except CommandStopped as stopped:
        notice(f"stopped by {stopped.signal.name}; the files that were there are in place")
        raise SystemExit(stopped.exit_code) from None
    print_key_metrics(found)
