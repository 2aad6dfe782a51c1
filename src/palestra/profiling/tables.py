"""What a scan keeps of each file until the three are joined."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from palestra.profiling.columns import Columns, IntArray
from palestra.profiling.frame import AgentName, TaskIndex
from palestra.profiling.join import Keys

K = TypeVar("K")


class Codes(Generic[K]):
    """Numbers values in order of appearance."""

    def __init__(self) -> None:
        self.names: list[K] = []
        self._codes: dict[K, int] = {}

    def code(self, name: K) -> int:
        """The number of a value, a new one if need be."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def find(self, name: K) -> int | None:
        """The number of a value, if it has one."""
        return self._codes.get(name)


def _integers() -> "array[int]":
    return array("q")


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Key, place, agent and family of each row of one file; columns grow as it is read."""

    path: Path
    task: "array[int]" = field(default_factory=_integers)
    rollout: "array[int]" = field(default_factory=_integers)
    line: "array[int]" = field(default_factory=_integers)
    offset: "array[int]" = field(default_factory=_integers)
    agent: "array[int]" = field(default_factory=_integers)
    family: "array[int]" = field(default_factory=_integers)

    def __len__(self) -> int:
        return len(self.task)

    def keys(self, rank: IntArray) -> Keys:
        """The rows' keys, tasks renumbered by `rank`."""
        return Keys(rank[integers(self.task)], integers(self.rollout))


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """One failed attempt. The name breaks ties, so that the order of rows never decides."""

    attempt: int
    failure_class: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """The files of one run, read but not yet joined; codes are shared by all of them."""

    tasks: Codes[TaskIndex]
    agents: Codes[AgentName]
    families: Codes[str] | None
    inputs: KeyTable
    rollouts: KeyTable
    columns: Columns
    failures: Mapping[tuple[TaskIndex, int], Failure]
    """The last attempt at each key that has a failed one."""
    notices: tuple[str, ...]


def integers(column: "array[int]") -> IntArray:
    return np.array(column, dtype=np.int64)
