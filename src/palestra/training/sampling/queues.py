"""A queue of groups: the requests of one group for each task, in an order that a seed decides."""

import random
from collections.abc import Iterator, Sequence

from palestra.errors import InputDataError
from palestra.schema import JsonObject
from palestra.training.checks import require, whole
from palestra.training.requests import RolloutRequest


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
