"""What every contender is: named ways of running rollouts, and the processes to account to it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

IN_FLIGHT = 16

RunChunk = Callable[[int], Awaitable[float]]
"""Run so many rollouts, `IN_FLIGHT` at once; returns the sum of their rewards."""


@dataclass(frozen=True, slots=True)
class Contender:
    """`ways`: name -> how to run a chunk. `pids`: processes besides the one that drives."""

    ways: Mapping[str, RunChunk]
    pids: tuple[int, ...] = field(default=())


def chunk_of(rollout: Callable[[int], Awaitable[float]], in_flight: int = IN_FLIGHT) -> RunChunk:
    """Chunks of a coroutine that runs the rollout of one task and returns its reward."""

    async def run(count: int) -> float:
        tasks = iter(range(count))
        rewards = 0.0

        async def worker() -> None:
            nonlocal rewards
            for task in tasks:
                reward = await rollout(task)
                rewards += reward

        async with asyncio.TaskGroup() as group:
            for _ in range(min(count, in_flight)):
                group.create_task(worker())
        return rewards

    return run
