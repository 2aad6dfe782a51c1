"""`python -m benchmarks.training_client [--seconds 20]`: a trainer's client against a collection.

The same rollouts (two model calls, one tool call, everything in this process, a fake endpoint in
another) by `RolloutClient.gather` and by `Collector.collect` with its journal, in turns. The
client writes no file; it checks rows, watches, captures turns and makes outcomes.
"""

import argparse
import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from benchmarks import machine
from benchmarks.processes import helper
from benchmarks.rollout_overhead.chunks import IN_FLIGHT
from benchmarks.rollout_overhead.embedded import config, contender
from benchmarks.rollout_overhead.payloads import row
from benchmarks.samples import p10, summary, table
from palestra.serving import EMBEDDED, Fleet, rare_collections
from palestra.training import ClientSettings, Completed, RolloutClient, RolloutRequest

ROLLOUTS = 192
WARM_UP = 6

Chunk = Callable[[int], Awaitable[float]]


def gathering(client: RolloutClient) -> Chunk:
    """Ask for so many rollouts, and take all of them."""
    rows = [row(task) for task in range(ROLLOUTS)]

    async def gather(count: int) -> float:
        asked = [RolloutRequest(row=rows[task], task_id=task) for task in range(count)]
        async with client.submit(asked) as batch:
            found = await batch.gather()
        return sum(outcome.reward for outcome in found if isinstance(outcome, Completed))

    return gather


async def measure(url: str, seconds: float) -> dict[str, list[float]]:
    """CPU ms per rollout of each chunk, by way."""
    async with contextlib.AsyncExitStack() as stack:
        direct = await stack.enter_async_context(contender(url))
        ways: dict[str, Chunk] = {"Collector.collect": direct.ways["collect"]}
        for title, token_ids in (("RolloutClient", True), ("without token ids", False)):
            settings = ClientSettings(in_flight=IN_FLIGHT, token_ids=token_ids)
            fleet = Fleet(config(url), default_placement=EMBEDDED)
            await stack.enter_async_context(rare_collections())
            client = await stack.enter_async_context(RolloutClient(fleet, settings))
            ways[title] = gathering(client)
        values: dict[str, list[float]] = {title: [] for title in ways}
        for chunk in ways.values():
            for _ in range(WARM_UP):
                await chunk(ROLLOUTS)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for title, chunk in ways.items():
                before = time.process_time_ns()
                await chunk(ROLLOUTS)
                values[title].append((time.process_time_ns() - before) / 1e6 / ROLLOUTS)
    return values


def report(values: dict[str, list[float]]) -> str:
    """The table, ratios by p10."""
    base = p10(values["Collector.collect"])
    rows = []
    for title, found in values.items():
        low, middle, mean = summary(found)
        ratio = f"{low / base:.3f}"
        rows.append((title, f"{low:.4f}", f"{middle:.4f}", f"{mean:.4f}", ratio, str(len(found))))
    header = ("CPU ms per rollout", "p10", "median", "mean", "x collect", "chunks")
    return table(header, rows)


def main() -> None:
    """Start everything, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_client")
    parser.add_argument("--seconds", type=float, default=20, help="how long to measure")
    seconds = parser.parse_args().seconds
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with helper("benchmarks.rollout_overhead.fake_upstream") as upstream:
        values = asyncio.run(measure(upstream.greeting, seconds))
    print(f"load average after:  {machine.load()}")
    print(report(values))


if __name__ == "__main__":
    main()
