"""Matches rows by key (task, rollout), on columns. Pure: arrays in, arrays out."""

from dataclasses import dataclass

import numpy as np

from palestra.metrics.columns import IntArray


@dataclass(frozen=True, slots=True)
class Keys:
    """The key of each row: rank of its task, and its rollout index."""

    task: IntArray
    rollout: IntArray

    def __len__(self) -> int:
        return len(self.task)

    def order(self) -> IntArray:
        """The rows by task, then rollout; rows with one key stay in file order."""
        return np.lexsort((self.rollout, self.task))

    def take(self, rows: IntArray) -> "Keys":
        return Keys(self.task[rows], self.rollout[rows])


def duplicates(keys: Keys) -> list[list[int]]:
    """The rows of each key that occurs more than once, in key order."""
    order = keys.order()
    ordered = keys.take(order)
    starts = starts_of_runs(ordered)
    repeated = np.flatnonzero(np.diff(starts) > 1)
    return [order[starts[run] : starts[run + 1]].tolist() for run in repeated.tolist()]


def starts_of_runs(ordered: Keys) -> IntArray:
    """Where each run of equal keys begins, and the number of rows at the end."""
    changes = (np.diff(ordered.task) != 0) | (np.diff(ordered.rollout) != 0)
    inner = np.flatnonzero(changes) + 1
    return np.concatenate([[0], inner, [len(ordered)]]).astype(np.int64)


def positions(wanted: Keys, among: Keys) -> IntArray:
    """Where each wanted key stands in `among`, whose keys ascend without repeats; -1: nowhere."""
    source = np.repeat([0, 1], [len(among), len(wanted)])
    rollout = np.concatenate([among.rollout, wanted.rollout])
    task = np.concatenate([among.task, wanted.task])
    order = np.lexsort((source, rollout, task))
    last_seen = np.cumsum(source[order] == 0) - 1
    found = np.empty(len(order), dtype=np.int64)
    found[order] = last_seen
    candidate = found[len(among) :]
    near = among.take(np.maximum(candidate, 0))
    same = (near.task == wanted.task) & (near.rollout == wanted.rollout)
    return np.where(same & (candidate >= 0), candidate, -1)
