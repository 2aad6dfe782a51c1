"""Aggregate metrics of rollouts that are on disk, from their agents."""

from pathlib import Path
from typing import Any

from palestra.cli.console import notice
from palestra.cli.loop import Stopped, run_to_end
from palestra.cli.reaching import find
from palestra.cli.tables import print_key_metrics
from palestra.config import ResolvedConfig
from palestra.rollouts.aggregate import aggregate


def ask_agents(config: ResolvedConfig, output: Path, destination: Path) -> None:
    """Metrics of the rollouts in `output`, from their agents, in a file and as a table.

    A running fleet is asked, or one is started from the configuration for as long as it takes.
    """

    async def ask() -> list[dict[str, Any]]:
        # Metrics are of answers that are there already: no model is needed, it may be gone.
        async with find(config) as choice, choice.open(models=False) as fleet:
            return await aggregate(fleet.client, output, destination)

    try:
        found = run_to_end(ask())
    except Stopped as stopped:
        notice(f"stopped by {stopped.signal.name}; the files that were there are in place")
        raise SystemExit(stopped.exit_code) from None
    print_key_metrics(found)
