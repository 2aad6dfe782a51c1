"""The few numbers a run is judged by, in all and by family."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from palestra.profiling.columns import BoolArray, FloatArray, IntArray
from palestra.profiling.frame import (
    NO_OUTCOME,
    SCORED,
    Completeness,
    Labels,
    Rollouts,
    RunFrame,
    counts_by_name,
)
from palestra.profiling.intervals import Estimate, estimate_level, reward_limits
from palestra.profiling.passk import expected_max_of_sorted
from palestra.profiling.statistics import describe, sum_by_group
from palestra.profiling.task_rows import solved_by_task

UNLABELLED = "(none)"


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Expected best reward among k rollouts of a task, averaged over tasks that have k."""

    k: int
    value: float
    tasks: int


@dataclass(frozen=True, slots=True)
class Scores:
    """What the scored rollouts of a group say."""

    tasks: int
    """Tasks with a scored rollout; the fractions below are of these."""
    mean_reward: Estimate
    pass_at: Sequence[PassAtK]
    """For k = 1, 2, 4, … up to the most rollouts a task has."""
    never_solved: float
    sometimes_solved: float
    always_solved: float
    mean_input_tokens: float | None
    mean_output_tokens: float | None


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One line of the table: some of the requests, and how they ended."""

    name: str
    tasks: int
    requested: int
    scored: int
    failures: Mapping[str, int]
    """Requests without a score, by the class of their last failed attempt."""
    unaccounted: int
    """Requests that no file says anything about."""
    scores: Scores | None
    """None when nothing was scored."""

    @property
    def coverage(self) -> float:
        return self.scored / self.requested


@dataclass(frozen=True, slots=True)
class RunSummary:
    total: GroupSummary
    by_agent: Sequence[GroupSummary]
    by_family: Sequence[GroupSummary]
    """Empty unless the run was loaded with `group_by`."""
    completeness: Completeness
    notices: Sequence[str]


def summarize(frame: RunFrame) -> RunSummary:
    """The summary of a run, in all, by agent, and by the field it was loaded to group by."""
    everything = np.ones(len(frame.requests), dtype=np.bool_)
    families = frame.families
    return RunSummary(
        total=_summary("all", frame, everything),
        by_agent=list(_by_label(frame, frame.agents, [ref.name for ref in frame.agents.names])),
        by_family=[] if families is None else list(_by_label(frame, families, families.names)),
        completeness=frame.completeness,
        notices=frame.notices,
    )


def _by_label(frame: RunFrame, labels: Labels[Any], names: Sequence[str]) -> Iterator[GroupSummary]:
    """By name; requests without a label come last."""
    present = set(np.unique(labels.codes).tolist())
    for code in sorted(present - {-1}, key=lambda code: (names[code], labels.names[code])):
        yield _summary(names[code], frame, labels.codes == code)
    if -1 in present:
        yield _summary(UNLABELLED, frame, labels.codes == -1)


def _summary(name: str, frame: RunFrame, chosen: BoolArray) -> GroupSummary:
    requests = frame.requests
    outcome: IntArray = requests.outcome[chosen]
    counts = dict(counts_by_name(requests.outcome_names, outcome))
    scored = counts.pop(SCORED, 0)
    rows: BoolArray = chosen[requests.scored]
    return GroupSummary(
        name=name,
        tasks=len(np.unique(requests.keys.task[chosen])),
        requested=len(outcome),
        scored=scored,
        failures=counts,
        unaccounted=int(np.sum(outcome == NO_OUTCOME)),
        scores=_scores(frame.rollouts.select(rows)) if scored else None,
    )


def _scores(rollouts: Rollouts) -> Scores:
    tasks = len(rollouts.tasks)
    solved, trials = solved_by_task(rollouts), rollouts.per_task
    never, always = int(np.sum(solved == 0)), int(np.sum(solved == trials))
    return Scores(
        tasks=tasks,
        mean_reward=_mean_reward(rollouts),
        pass_at=list(_pass_at(rollouts)),
        never_solved=never / tasks,
        sometimes_solved=(tasks - never - always) / tasks,
        always_solved=always / tasks,
        mean_input_tokens=_mean(rollouts, "input_tokens"),
        mean_output_tokens=_mean(rollouts, "output_tokens"),
    )


def _mean_reward(rollouts: Rollouts) -> Estimate:
    """Mean over all rollouts, with a bootstrap interval clustered by task."""
    return estimate_level(
        sum_by_group(rollouts.reward, rollouts.starts),
        rollouts.per_task,
        limits=reward_limits(rollouts.reward),
    )


def _pass_at(rollouts: Rollouts) -> Iterator[PassAtK]:
    sizes = rollouts.per_task
    matrices = [_sorted_rewards(rollouts, size) for size in np.unique(sizes).tolist()]
    k = 1
    while k <= int(sizes.max()):
        held = [expected_max_of_sorted(rows, k) for rows in matrices if rows.shape[1] >= k]
        values = np.concatenate(held)
        yield PassAtK(k, float(values.mean()), len(values))
        k *= 2


def _sorted_rewards(rollouts: Rollouts, size: int) -> FloatArray:
    """One ascending row of rewards for each task that has `size` rollouts."""
    first = rollouts.starts[:-1][rollouts.per_task == size]
    return np.sort(rollouts.reward[first[:, np.newaxis] + np.arange(size)], axis=1)


def _mean(rollouts: Rollouts, field: str) -> float | None:
    column = rollouts.columns.values.get(field)
    if column is None or np.isnan(column).all():
        return None
    everything = np.array([0, len(column)])
    return float(describe(column, everything).mean[0])
