"""The baseline's collector: it runs the three servers and posts rows to the agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson

from benchmarks.processes import helper
from benchmarks.rollout_overhead.chunks import Contender, chunk_of
from benchmarks.rollout_overhead.payloads import row
from benchmarks.rollout_overhead.seven_hops.http import Client

PACKAGE = "benchmarks.rollout_overhead.seven_hops"


@asynccontextmanager
async def contender(upstream: str, bodies: str = "wire") -> AsyncIterator[Contender]:
    """One way: `seven hops`. `bodies`: the module that has their types."""
    client = Client()
    with (
        helper(f"{PACKAGE}.model", bodies, upstream) as model,
        helper(f"{PACKAGE}.resources", bodies) as resources,
        helper(f"{PACKAGE}.agent", bodies, model.greeting, resources.greeting) as agent,
    ):

        async def rollout(task: int) -> float:
            raw, _ = await client.post(agent.greeting + "/run", row(task))
            return float(orjson.loads(raw)["reward"])

        yield Contender(
            {"seven hops": chunk_of(rollout)}, pids=(model.pid, resources.pid, agent.pid)
        )
        await client.close()
