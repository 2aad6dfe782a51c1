"""A client whose rollouts end after a simulated time: no servers, no waiting."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self

from msgspec.structs import replace
from outcome_samples import completed, failed

from palestra.training import (
    ClientSettings,
    Completed,
    FailureClass,
    Group,
    Health,
    Key,
    Outcome,
    RolloutRequest,
    Summary,
    TokenUsage,
)

Rollout = tuple[float, float | FailureClass]
"""The length of a rollout, which is its duration too, and its reward or failure."""


class SimulatedSubmission:
    """Outcomes in the order of their durations."""

    def __init__(self, source: "SimulatedSource", requests: list[RolloutRequest]) -> None:
        self._source = source
        self._began = source.now
        self._queue = [(source.now + source.play(item)[0], n) for n, item in enumerate(requests)]
        heapq.heapify(self._queue)
        self._requests = requests
        self._by_key = {item.key: item for item in requests}
        self._cancelled: list[RolloutRequest] = []
        self._gone: set[Key] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        return

    async def next(self) -> Outcome | None:
        await asyncio.sleep(0)
        if self._cancelled:
            item = self._cancelled.pop()
            return failed_with(item, FailureClass.CANCELLED)
        while self._queue:
            ends, number = heapq.heappop(self._queue)
            item = self._requests[number]
            if item.key in self._gone:
                continue
            self._gone.add(item.key)
            self._source.now = max(self._source.now, ends)
            length, result = self._source.play(item)
            if isinstance(result, FailureClass):
                return failed_with(item, result)
            made = completed_with(item, length, result)
            weights = self._source.weight_version
            return replace(made, chains=[], weights_start=weights, weights_end=weights)
        return None

    def __aiter__(self) -> AsyncIterator[Outcome]:
        raise NotImplementedError

    def groups(self, size: int, /) -> AsyncIterator[Group]:
        raise NotImplementedError

    async def gather(self) -> list[Outcome]:
        raise NotImplementedError

    def cancel(self, keys: Iterable[Key] | None = None) -> None:
        wanted = set(keys or ())
        self._cancelled += [self._by_key[key] for key in wanted - self._gone]
        self._gone |= wanted

    def stop(self, reason: str) -> None:
        raise NotImplementedError

    def summary(self) -> Summary:
        return Summary(len(self._requests), 0, {}, 0)

    async def aclose(self) -> None:
        return


class SimulatedSource:
    """`play`: what becomes of each request."""

    def __init__(self, play: Callable[[RolloutRequest], Rollout]) -> None:
        self.play = play
        self.settings = ClientSettings()
        self.weight_version: int | None = None
        self.now = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        return

    def submit(self, requests: Iterable[RolloutRequest], **options: Any) -> SimulatedSubmission:
        return SimulatedSubmission(self, list(requests))

    async def health(self) -> Health:
        raise NotImplementedError

    def pause(self) -> None:
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    async def hold_calls(self) -> None:
        raise NotImplementedError

    async def set_weight_version(self, version: int) -> None:
        self.weight_version = version


def completed_with(item: RolloutRequest, length: float, reward: float) -> Completed:
    return completed(
        task=item.task_id,
        rollout=item.rollout_index,
        group_id=item.group,
        reward=reward,
        usage=TokenUsage(1, round(length)),
    )


def failed_with(item: RolloutRequest, failure: FailureClass) -> Outcome:
    made = failed(item.task_id, item.rollout_index)
    return replace(made, group_id=item.group, failure=failure, attempts=1)
