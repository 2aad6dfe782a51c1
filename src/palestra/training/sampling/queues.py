"""Queues of groups: the requests of one group for each task. A seed decides their order, and dynamic
sampling takes fresh groups from them.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import final

from palestra.errors import InputDataError
from palestra.schema import JsonObject
from palestra.training.checks import require, whole
from palestra.training.errors import NotEnoughSpread
from palestra.training.groups import Group
from palestra.training.requests import RolloutRequest, requests_in
from palestra.training.sampling.rules import DynamicSampling


def task_queue(
    rows: Sequence[JsonObject], members: int, *, seed: int = 0, sampling: JsonObject | None = None
) -> Iterator[list[RolloutRequest]]:
    """Return the requests of each row's group, `members` each, once for each row.

    `seed` decides the order of the rows and the seed of each rollout. A row's task id is its
    position in `rows`. Raises ConfigError: `members` or `seed` is invalid. Raises InputDataError:
    there are no rows.
    """
    require("members", members, whole(1))
    require("seed", seed, whole())
    if not rows:
        raise InputDataError("there are no rows, so there is no task to sample")
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    return (
        [
            RolloutRequest(
                row=rows[task],
                task_id=task,
                rollout_index=index,
                sampling=sampling or {},
                seed=_seed_of(seed, task, index),
            )
            for index in range(members)
        ]
        for task in order
    )


def _seed_of(seed: int, task: int, index: int) -> int:
    """Return a seed for a rollout that endpoints accept: below 2^31."""
    return random.Random(f"{seed}/{task}/{index}").getrandbits(31)


@final
class FreshGroups:
    """The groups of a queue that dynamic sampling uses."""

    def __init__(self, queue: Iterator[Sequence[RolloutRequest]], rule: DynamicSampling) -> None:
        self.rule = rule
        self._queue = queue
        self._taken = 0
        self._queue_ended = False
        self._names: set[int | str] = set()

    def first(self) -> list[Sequence[RolloutRequest]]:
        """Return the groups to start with. Raises InputDataError: the queue has too few."""
        groups = list(itertools.islice(self._queue, self.rule.groups))
        if len(groups) < self.rule.groups:
            raise InputDataError(
                f"the queue has {len(groups)} groups, and {self.rule.groups} are to be returned"
            )
        for group in groups:
            self._check(group)
        return groups

    def next(self) -> Sequence[RolloutRequest] | None:
        """Return a fresh group; None when the queue has ended or no more are allowed."""
        if self._taken >= self.rule.max_fresh_groups:
            return None
        group = next(self._queue, None)
        if group is None:
            self._queue_ended = True
            return None
        self._taken += 1
        return self._check(group)

    def _check(self, group: Sequence[RolloutRequest]) -> Sequence[RolloutRequest]:
        """Return a group of the queue. Raises InputDataError: it is not one group, or comes a
        second time.
        """
        names = {request.group for request in requests_in(group)}
        repeated = names & self._names
        if len(names) > 1 or repeated:
            listed = ", ".join(map(repr, sorted(names, key=str)))
            raise InputDataError(
                f"the queue returned group {listed} a second time in one batch"
                if repeated
                else f"the queue returned requests of {len(names)} groups together: {listed}",
                hint="each item of the queue is the list of requests of one group, for one task",
            )
        self._names |= names
        return group

    def has_spread(self, group: Group) -> bool:
        """Whether the rewards of a group differ."""
        rewards = group.rewards
        return max(rewards) - min(rewards) > self.rule.least_spread

    def too_few(self, returned: int) -> NotEnoughSpread:
        """Return the error for a batch with fewer groups than requested."""
        return NotEnoughSpread(
            requested_groups=self.rule.groups,
            returned_groups=returned,
            fresh_groups=self._taken,
            queue_ended=self._queue_ended,
        )
