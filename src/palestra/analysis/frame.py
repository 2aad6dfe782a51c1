"""A run in numpy columns: what was requested, how each request ended, what was measured.

Glossary: a *request* is one materialized row, known by its key (task, rollout). A *rollout* is a
request that was scored. Requests and rollouts are both kept in key order, so rollout i is the
i-th scored request, whatever the order of rows in the files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from palestra.metrics import BoolArray, IntArray, Keys, Rollouts, TaskIndex, starts_of_sorted
from palestra.schema import Unscored

SCORED = "scored"
SCORED_CODE = 0
NO_OUTCOME = -1
"""A request that no file mentions: it was in flight when the run was killed, or never started."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class AgentName:
    """An agent as rows refer to it."""

    name: str
    type: str = ""

    def as_ref(self) -> dict[str, str]:
        """The `agent_ref` of a row."""
        return {"type": self.type, "name": self.name} if self.type else {"name": self.name}


@dataclass(frozen=True, slots=True)
class RowPositions:
    """Where rows are: in which file, and at which byte of it, once unpacked."""

    files: Sequence[Path]
    file: IntArray
    """Positions in `files`."""
    offset: IntArray

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: IntArray | BoolArray) -> "RowPositions":
        return RowPositions(self.files, self.file[rows], self.offset[rows])


@dataclass(frozen=True, slots=True)
class RequestLabels(Generic[T]):
    """One of a few values per request; `codes` number them, -1 where a request has none."""

    names: Sequence[T]
    codes: IntArray


@dataclass(frozen=True, slots=True)
class Endings:
    """Of each rollout, how its answer came to an end."""

    truncated: BoolArray
    """Cut off at a limit on tokens or context, and scored as it was."""
    empty: BoolArray
    """The model said nothing: neither text nor a call of a tool."""

    def take(self, rows: IntArray) -> "Endings":
        return Endings(self.truncated[rows], self.empty[rows])


@dataclass(frozen=True, slots=True)
class RequestedRollouts:
    """Every materialized row: its key, where it is in the file, and how it ended."""

    tasks: Sequence[TaskIndex]
    keys: Keys
    """`keys.task` are positions in `tasks`."""
    places: RowPositions
    """Where the materialized rows are."""
    outcome: IntArray
    """Positions in `outcome_names`, or NO_OUTCOME."""
    outcome_names: Sequence[str]
    """`scored`, then the failure classes by name."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def offset(self) -> IntArray:
        """Where each row begins in its file, once unpacked."""
        return self.places.offset

    @property
    def scored(self) -> BoolArray:
        return np.asarray(self.outcome == SCORED_CODE)

    @property
    def starts(self) -> IntArray:
        """The first request of each task; every task has one."""
        return starts_of_sorted(self.keys.task)

    def outcomes_by_task(self) -> IntArray:
        """Counts by task and outcome; requests without an outcome are in none."""
        width = len(self.outcome_names)
        has_outcome = self.outcome != NO_OUTCOME
        cells = self.keys.task[has_outcome] * width + self.outcome[has_outcome]
        return np.bincount(cells, minlength=len(self.tasks) * width).reshape(-1, width)


@dataclass(frozen=True, slots=True)
class RunCompleteness:
    """How much of what was requested is there."""

    completed_rollouts: int
    expected_rollouts: int
    complete_tasks: int
    partial_tasks: int
    dropped_tasks: int
    """Tasks without a single scored rollout; they have no profile."""

    @property
    def completed_pct(self) -> float:
        return 100 * self.completed_rollouts / self.expected_rollouts

    def __str__(self) -> str:
        return (
            f"rollouts: {self.completed_rollouts} of {self.expected_rollouts} completed "
            f"({self.completed_pct:.1f} %); tasks: {self.complete_tasks} complete, "
            f"{self.partial_tasks} partial, {self.dropped_tasks} dropped"
        )


@dataclass(frozen=True, slots=True)
class RunFrame:
    """A run, loaded: everything profiling needs except the materialized rows themselves."""

    requests: RequestedRollouts
    rollouts: Rollouts
    rollout_places: RowPositions
    """Per rollout, where its row is."""
    endings: Endings
    agents: RequestLabels[AgentName]
    families: RequestLabels[str] | None
    """Per request, the value of the field that `load_run` was told to group by."""
    notices: Sequence[str]
    """What a reader should know about the files, one sentence each."""
    unscored: Unscored
    """The requests without a score, by what helps."""

    @property
    def inputs_path(self) -> Path:
        """The materialized inputs; of several shards the first."""
        return self.requests.places.files[0]

    @property
    def rollouts_path(self) -> Path:
        """The rollouts; of several shards the first."""
        return self.rollout_places.files[0]

    @property
    def rollout_offset(self) -> IntArray:
        """Per rollout, where its row begins in its file, once unpacked."""
        return self.rollout_places.offset

    @property
    def profiled(self) -> IntArray:
        """Positions in `requests.tasks` of the tasks that have a scored rollout."""
        return np.unique(self.requests.keys.task[self.requests.scored])

    @property
    def completeness(self) -> RunCompleteness:
        expected = np.diff(self.requests.starts)
        scored = self.requests.outcomes_by_task()[:, SCORED_CODE]
        return RunCompleteness(
            completed_rollouts=int(scored.sum()),
            expected_rollouts=len(self.requests),
            complete_tasks=int(np.sum(scored == expected)),
            partial_tasks=int(np.sum((scored > 0) & (scored < expected))),
            dropped_tasks=int(np.sum(scored == 0)),
        )


def counts_by_name(names: Sequence[str], codes: IntArray) -> Mapping[str, int]:
    """How often each name occurs; names that never do are left out."""
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if count}
