"""CPU per embedded rollout without the setting, with it off, and while functions are timed.

The first two take turns, chunk by chunk, so that their ratio is one of the code and not of the
machine; the third can only come after them, since yappi times everything in its process.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import asynccontextmanager

from benchmarks import machine
from benchmarks.processes import helper
from benchmarks.rollout_overhead.chunks import RunChunk, chunk_of
from benchmarks.rollout_overhead.embedded import CONFIGS
from benchmarks.rollout_overhead.payloads import AGENT, MODEL, row
from benchmarks.samples import p10, summary, table
from palestra.config import load_config
from palestra.fleet import EMBEDDED, Fleet, rare_collections
from palestra.schema import VerifyResponse

CHUNK = 64


@asynccontextmanager
async def running(upstream: str, **settings: object):
    """Chunks of rollouts in a fleet with these settings."""
    policy = {"policy_base_url": upstream, "policy_api_key": "EMPTY", "policy_model_name": MODEL}
    config = load_config(config_paths=CONFIGS, extra={**policy, **settings}, use_env_yaml=False)
    async with rare_collections(), Fleet(config, default_placement=EMBEDDED) as fleet:

        async def rollout(task: int) -> float:
            result = await fleet.client.peer(AGENT).call("/run", row(task), VerifyResponse)
            return result.reward

        yield chunk_of(rollout)


async def cpu_ms(run: RunChunk) -> float:
    """CPU of this process per rollout of one chunk, in milliseconds."""
    before = time.process_time()
    await run(CHUNK)
    return 1000 * (time.process_time() - before) / CHUNK


async def measured(upstream: str, seconds: float) -> dict[str, list[float]]:
    """Samples by way."""
    found: dict[str, list[float]] = {"without the setting": [], "off": [], "on": []}
    async with (
        running(upstream) as plain,
        running(upstream, profiling_enabled=False, profiling_results_dirpath="x") as off,
    ):
        await plain(CHUNK)
        await off(CHUNK)
        end = time.monotonic() + 2 * seconds / 3
        while time.monotonic() < end:
            found["without the setting"].append(await cpu_ms(plain))
            found["off"].append(await cpu_ms(off))
    with tempfile.TemporaryDirectory() as folder:
        settings = {"profiling_enabled": True, "profiling_results_dirpath": folder}
        async with running(upstream, **settings) as on:
            await on(CHUNK)
            end = time.monotonic() + seconds / 3
            while time.monotonic() < end:
                found["on"].append(await cpu_ms(on))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.server_profiling", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=20, help="how long to measure")
    seconds = parser.parse_args().seconds
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with helper("benchmarks.rollout_overhead.fake_upstream") as upstream:
        found = asyncio.run(measured(upstream.greeting, seconds))
    print(f"load average after:  {machine.load()}\n")
    floor = p10(found["without the setting"])
    rows = [
        (name, f"{p10(values) / floor:.3f}", *(f"{value:.3f}" for value in summary(values)))
        for name, values in found.items()
    ]
    print(table(("CPU ms per rollout", "ratio", "p10", "median", "mean"), rows))


if __name__ == "__main__":
    main()
