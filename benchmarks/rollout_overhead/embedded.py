"""Palestra with every server in this process, as `palestra collect` runs it.

Three ways: `run` is the typed call of the agent alone; `collect` is a whole `Collector.collect`
with a journal, rows decoded from their lines; `collect nothing` is such a collection without
rows, to tell what a collection costs however many rollouts it has.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from benchmarks.rollout_overhead.chunks import IN_FLIGHT, Contender, RunChunk, chunk_of
from benchmarks.rollout_overhead.payloads import AGENT, MODEL, row
from palestra.config import ResolvedConfig, load_config
from palestra.engine import Accounting
from palestra.fleet import EMBEDDED, Fleet, rare_collections
from palestra.rollouts import CollectionLimits, Collector, Journal
from palestra.schema import RunPaths, VerifyResponse
from palestra.transport import ServerClient

CONFIGS = (
    "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml",
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
)


def config(upstream: str) -> ResolvedConfig:
    """The example with one tool, its simple agent, and a vllm_model in front of `upstream`."""
    policy = {
        "policy_base_url": upstream,
        "policy_api_key": "EMPTY",
        "policy_model_name": MODEL,
    }
    return load_config(config_paths=CONFIGS, extra=policy, use_env_yaml=False)


def _rows(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        yield orjson.loads(line)


def _collecting(client: ServerClient, folder: Path) -> RunChunk:
    lines = [orjson.dumps(row(task)) for task in range(4096)]

    async def collect(rollouts: int) -> float:
        accounting = Accounting(rollouts)
        # One file that grows, as in a run; deleting it is not part of a collection.
        with Journal(RunPaths(folder / "rollouts.jsonl")) as journal:
            collector = Collector(
                client, journal, accounting, limits=CollectionLimits(in_flight=IN_FLIGHT)
            )
            await collector.collect(_rows(lines[:rollouts]), count=rollouts)
        accounting.check()
        return accounting.reward_sum

    return collect


@asynccontextmanager
async def contender(upstream: str) -> AsyncIterator[Contender]:
    """Ways: `run`, `collect`, `collect nothing`."""
    async with rare_collections(), Fleet(config(upstream), default_placement=EMBEDDED) as fleet:
        client = fleet.client

        async def rollout(task: int) -> float:
            result = await client.peer(AGENT).call("/run", row(task), VerifyResponse)
            return result.reward

        with tempfile.TemporaryDirectory() as folder:
            collect = _collecting(client, Path(folder))

            async def collect_nothing(_count: int) -> float:
                return await collect(0)

            yield Contender(
                {
                    "run": chunk_of(rollout),
                    "collect": collect,
                    "collect nothing": collect_nothing,
                }
            )
