"""Which rollouts the report shows in full: planned before a row is read again. Pure.

The report is bounded, a run is not. Tasks are taken in order of interest; of each, its best, its
worst and its longest rollout. How much text a row holds is known only when it has been read, so
the plan is bounded in rows, and packing in bytes: it stops where the room ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palestra.profiling.frame import Rollouts
from palestra.profiling.task_rows import LENGTH_FIELD

MOST_ROLLOUTS = 4_000
"""Rollouts whose rows are read again, at most."""


class Choice(NamedTuple):
    """A rollout, by its number in the frame, and why it was chosen."""

    rollout: int
    why: str


def plan(rollouts: Rollouts, interest: Iterable[int]) -> Mapping[int, Sequence[Choice]]:
    """For each task to show, by position and in order of interest, its chosen rollouts."""
    chosen: dict[int, Sequence[Choice]] = {}
    rows = 0
    for position in interest:
        choices = list(_of_task(rollouts, position))
        rows += len(choices)
        if rows > MOST_ROLLOUTS:
            break
        chosen[position] = choices
    return chosen


def _of_task(rollouts: Rollouts, position: int) -> Iterator[Choice]:
    """Best (of equals the shortest), worst (of equals the longest), longest; each only once."""
    start, end = rollouts.starts[position : position + 2].tolist()
    if end - start == 1:
        yield Choice(start, "the only one")
        return
    reward = rollouts.reward[start:end]
    column = rollouts.columns.values.get(LENGTH_FIELD)
    length = np.zeros(end - start) if column is None else np.nan_to_num(column[start:end])
    best = int(np.lexsort((length, -reward))[0])
    worst = int(np.lexsort((-length, reward))[0])
    longest = int(np.argmax(length))
    same = reward[best] == reward[worst]
    yield Choice(start + best, _why_first(same=same, shorter=length[best] < length[worst]))
    if worst != best:
        yield Choice(start + worst, _why_last(same=same, longer=length[worst] > length[best]))
    if length[longest] > max(length[best], length[worst]):
        yield Choice(start + longest, "longest")


def _why_last(*, same: bool, longer: bool) -> str:
    if not same:
        return "worst"
    return "longest" if longer else "another"


def _why_first(*, same: bool, shorter: bool) -> str:
    if not same:
        return "best"
    return "shortest" if shorter else "one of equals"
