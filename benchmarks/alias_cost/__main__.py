"""`python -m benchmarks.alias_cost [--seconds N]`: CPU of a rollout over the alias and over ours.

Every server is in this process, chunk by chunk in turns, in front of one upstream.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks import machine
from benchmarks.alias_cost.folders import settings, write
from benchmarks.processes import Helper, helper
from benchmarks.rollout_overhead.chunks import RunChunk, chunk_of
from benchmarks.rollout_overhead.payloads import MODEL, row
from benchmarks.samples import p10, summary, table
from palestra.config import load_config
from palestra.fleet import EMBEDDED, Fleet, rare_collections
from palestra.schema import VerifyResponse

CHUNK = 48
WAYS = {
    "our environment, our agent": "native_loop_native_weather",
    "the alias's environment, our agent": "native_loop_alias_weather",
    "our environment, the alias's agent": "alias_loop_native_weather",
    "the alias's environment and agent": "alias_loop_alias_weather",
}


def _chunks(fleet: Fleet, agent: str) -> RunChunk:
    reference = {"type": "responses_api_agents", "name": agent}

    async def rollout(task: int) -> float:
        body = row(task) | {"agent_ref": reference}
        return (await fleet.client.peer(agent).call("/run", body, VerifyResponse)).reward

    return chunk_of(rollout)


async def measure(upstream: str, seconds: float) -> dict[str, list[float]]:
    """Return the CPU milliseconds of a rollout, of each chunk, by the title of its way."""
    policy = {
        "policy_base_url": upstream,
        "policy_api_key": "EMPTY",
        "policy_model_name": MODEL,
    }
    config = load_config(
        config_paths=["responses_api_models/vllm_model/configs/vllm_model.yaml"],
        extra={**policy, **settings()},
        use_env_yaml=False,
    )
    spent: dict[str, list[float]] = {title: [] for title in WAYS}
    async with rare_collections(), Fleet(config, default_placement=EMBEDDED) as fleet:
        ways = {title: _chunks(fleet, agent) for title, agent in WAYS.items()}
        for run in ways.values():
            await run(8 * CHUNK)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for title, run in ways.items():
                before = machine.cpu_ns(os.getpid())
                if await run(CHUNK) != CHUNK:
                    raise SystemExit(f"{title}: not every rollout was rewarded")
                spent[title].append((machine.cpu_ns(os.getpid()) - before) / 1e6 / CHUNK)
    return spent


def report(spent: dict[str, list[float]]) -> str:
    """Return the table; ratios by p10."""
    floor = p10(next(iter(spent.values())))
    rows = [
        (title, *(f"{value:.4f}" for value in summary(values)), f"{p10(values) / floor:.2f}")
        for title, values in spent.items()
    ]
    head = "CPU ms per rollout (2 model calls, 1 tool call)"
    return table((head, "p10", "median", "mean", "x ours"), rows)


def _run(upstream: Helper, seconds: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        os.chdir(folder)
        return report(uvloop.run(measure(upstream.greeting, seconds)))


def main() -> None:
    """Start the upstream, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alias_cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="how long to measure")
    seconds = parser.parse_args().seconds
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with helper("benchmarks.rollout_overhead.fake_upstream") as upstream:
        print(_run(upstream, seconds))
    print(f"load average after:  {machine.load()}")


if __name__ == "__main__":
    main()
