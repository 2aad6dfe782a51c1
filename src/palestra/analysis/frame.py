"""A run in numpy columns: its requests, how each ended, and the measured values.

Glossary: a *request* is one materialized row, identified by its key (task, rollout). A *rollout* is
a request that was scored. Requests and rollouts are both sorted by key, so rollout i is the i-th
scored request, whatever the order of rows in the files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from palestra.analysis.manifests import MissingShards
from palestra.metrics import (
    BoolArray,
    IntArray,
    Keys,
    Rollouts,
    TaskIndex,
    distinct,
    starts_of_sorted,
)
from palestra.schema import Remedy, Unscored

SCORED = "scored"
SCORED_CODE = 0
NO_OUTCOME = -1
"""The outcome of a request that is in no result file: it was running when the run was killed, or it
never started."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class AgentName:
    """The name and type of an agent, as in the `agent_ref` of a row."""

    name: str
    type: str = ""

    def as_ref(self) -> dict[str, str]:
        """Return the agent as the `agent_ref` of a row."""
        return {"type": self.type, "name": self.name} if self.type else {"name": self.name}


@dataclass(frozen=True, slots=True)
class RowPositions:
    """The positions of rows: the file of each, and its byte offset in the uncompressed file."""

    files: Sequence[Path]
    file: IntArray
    """Per row, the position of its file in `files`."""
    offset: IntArray

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: IntArray | BoolArray) -> "RowPositions":
        return RowPositions(self.files, self.file[rows], self.offset[rows])


@dataclass(frozen=True, slots=True)
class RequestLabels(Generic[T]):
    """One label per request, from a short list `names`. `codes`: positions in `names`, -1 for a
    request without a label.
    """

    names: Sequence[T]
    codes: IntArray


@dataclass(frozen=True, slots=True)
class Endings:
    """How each scored rollout ended."""

    truncated: BoolArray
    """Whether the answer was cut off at a token or context limit; it was scored all the same."""
    empty: BoolArray
    """Whether the model returned neither text nor a tool call."""
    broken_tools: BoolArray
    """Whether a tool call ended in an exception that its author did not mean."""
    outside_rules: BoolArray
    """Whether the reward lies outside the reward rules of its environment."""

    def take(self, rows: IntArray) -> "Endings":
        return Endings(
            self.truncated[rows],
            self.empty[rows],
            self.broken_tools[rows],
            self.outside_rules[rows],
        )


@dataclass(frozen=True, slots=True)
class RequestedRollouts:
    """All materialized rows: the key of each, its position in the file, and how the request ended."""

    tasks: Sequence[TaskIndex]
    keys: Keys
    """The key of each request; `keys.task` are positions in `tasks`."""
    places: RowPositions
    """The positions of the materialized rows."""
    outcome: IntArray
    """Per request, a position in `outcome_names`, or NO_OUTCOME."""
    outcome_names: Sequence[str]
    """`scored`, followed by the names of the failure classes."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def offset(self) -> IntArray:
        """The byte offset of each row in its uncompressed file."""
        return self.places.offset

    @property
    def scored(self) -> BoolArray:
        return np.asarray(self.outcome == SCORED_CODE)

    @property
    def starts(self) -> IntArray:
        """The position of each task's first request, and the total number at the end."""
        return starts_of_sorted(self.keys.task)

    def outcomes_by_task(self) -> IntArray:
        """Return the number of requests by task and outcome; requests without an outcome are not
        counted.
        """
        width = len(self.outcome_names)
        has_outcome = self.outcome != NO_OUTCOME
        cells = self.keys.task[has_outcome] * width + self.outcome[has_outcome]
        return np.bincount(cells, minlength=len(self.tasks) * width).reshape(-1, width)


@dataclass(frozen=True, slots=True)
class FailedRequests:
    """The requests that failed and have no score, in key order: where their rows are."""

    requests: IntArray
    """The position of each in the requests."""
    places: RowPositions
    """The row of the last failed attempt of each."""
    answer_places: RowPositions
    """The row that keeps the model's answer; a negative offset where none does."""
    remedies: Sequence[Remedy]

    def __len__(self) -> int:
        return len(self.requests)


@dataclass(frozen=True, slots=True)
class RunCompleteness:
    """How many of the requested rollouts were completed, overall and by task."""

    completed_rollouts: int
    expected_rollouts: int
    complete_tasks: int
    partial_tasks: int
    dropped_tasks: int
    """The number of tasks without a scored rollout; these tasks have no profile."""

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
    """A loaded run: everything that profiling needs except the materialized rows themselves."""

    requests: RequestedRollouts
    rollouts: Rollouts
    rollout_places: RowPositions
    """The position of each rollout's row."""
    endings: Endings
    agents: RequestLabels[AgentName]
    families: RequestLabels[str] | None
    """Per request, the value of the `group_by` field of `load_run`; None without `group_by`."""
    notices: Sequence[str]
    """Notices about the files for the user, one sentence each."""
    unscored: Unscored
    """The requests without a score, counted by remedy."""
    failed: FailedRequests
    missing_shards: MissingShards | None
    """The shards whose requests are in no file, and so not in `requests`."""

    @property
    def inputs_path(self) -> Path:
        """The file of materialized inputs; the first one if there are several shards."""
        return self.requests.places.files[0]

    @property
    def rollouts_path(self) -> Path:
        """The rollouts file; the first one if there are several shards."""
        return self.rollout_places.files[0]

    @property
    def rollout_offset(self) -> IntArray:
        """Per rollout, the byte offset of its row in its uncompressed file."""
        return self.rollout_places.offset

    @property
    def profiled(self) -> IntArray:
        """Positions in `requests.tasks` of the tasks with at least one scored rollout."""
        return distinct(self.requests.keys.task[self.requests.scored])

    @property
    def completeness(self) -> RunCompleteness:
        expected = np.diff(self.requests.starts)
        scored = self.requests.outcomes_by_task()[:, SCORED_CODE]
        elsewhere = 0 if self.missing_shards is None else self.missing_shards.rollouts
        return RunCompleteness(
            completed_rollouts=int(scored.sum()),
            expected_rollouts=len(self.requests) + elsewhere,
            complete_tasks=int(np.sum(scored == expected)),
            partial_tasks=int(np.sum((scored > 0) & (scored < expected))),
            dropped_tasks=int(np.sum(scored == 0)),
        )


def counts_by_name(names: Sequence[str], codes: IntArray) -> Mapping[str, int]:
    """Return how often each name occurs; names that do not occur are left out."""
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if count}
