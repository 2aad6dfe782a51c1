"""Computes the main numbers of a run: overall, by family, and by agent with full statistics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palestra.analysis.frame import (
    NO_OUTCOME,
    SCORED,
    AgentName,
    RequestLabels,
    RunCompleteness,
    RunFrame,
    counts_by_name,
)
from palestra.analysis.intervals import Estimate, estimate_level
from palestra.analysis.task_rows import solved_by_task
from palestra.analysis.views import (
    OverRequested,
    PassAtK,
    RangeAtK,
    over_requested,
    pass_powers,
    reward_range,
)
from palestra.analysis.writing import write_json
from palestra.metrics import (
    BoolArray,
    IntArray,
    Rollouts,
    component_fields,
    mean_by_group,
    starts_of_sorted,
    statistics_rows,
    sum_by_group,
)
from palestra.schema import JsonDict

UNLABELLED = "(none)"


@dataclass(frozen=True, slots=True)
class GroupScores:
    """The scores of a group's scored rollouts."""

    tasks: int
    """The number of tasks with a scored rollout; the `_solved` fractions are of this number."""
    mean_reward: Estimate
    pass_at: Sequence[PassAtK]
    """pass@k for k = 1, 2, 4, … up to the largest number of rollouts of a task."""
    pass_hat: Sequence[PassAtK]
    """pass^k for the same k: the expected worst of k rewards; for 0/1 rewards, the probability that
    all k are solved."""
    never_solved: float
    sometimes_solved: float
    always_solved: float
    mean_input_tokens: float | None
    mean_output_tokens: float | None
    components: Mapping[str, float]
    """The mean of each component of the reward, by name; empty when rewards have no components."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One line of the summary table: a group of requests, how they ended, and their scores."""

    name: str
    tasks: int
    requested: int
    scored: int
    truncated: int
    """The number of scored rollouts whose answer or conversation was cut off at a limit."""
    empty_answers: int
    """The number of scored rollouts with neither text nor a tool call of the model."""
    failures: Mapping[str, int]
    """The number of requests without a score, by the class of their last failed attempt."""
    unaccounted: int
    """The number of requests that are in no rollouts file and no failures file."""
    scores: GroupScores | None
    """The scores; None when no rollout was scored."""
    over_requested: OverRequested
    """The possible ranges of the scores over all requested rollouts."""

    @property
    def coverage(self) -> float:
        return self.scored / self.requested

    def as_json(self) -> JsonDict:
        """Return both views of every metric; rewards are not in percent.

        For each metric, `scored` is the value over scored rollouts, and `requested` the lowest and
        highest possible value over all requested rollouts.
        """
        scores, over_requested = self.scores, self.over_requested
        mean = scores.mean_reward if scores else Estimate(0, None, None, None)
        return {
            "tasks": self.tasks,
            "requested": self.requested,
            "scored": self.scored,
            "truncated": self.truncated,
            "empty_answers": self.empty_answers,
            "failures": dict(self.failures),
            "unaccounted": self.unaccounted,
            "mean_reward": {
                "scored": mean.value if scores else None,
                "standard_error": mean.standard_error,
                "interval": None if mean.low is None else [mean.low, mean.high],
                "requested": over_requested.mean_reward.as_json(),
            },
            "pass@k": _views_at_k(scores.pass_at if scores else (), over_requested.pass_at),
            "pass^k": _views_at_k(scores.pass_hat if scores else (), over_requested.pass_hat),
            **{
                share: {
                    "scored": getattr(scores, share, None),
                    "requested": getattr(over_requested, share).as_json(),
                }
                for share in ("never_solved", "sometimes_solved", "always_solved")
            },
            "mean_input_tokens": scores.mean_input_tokens if scores else None,
            "mean_output_tokens": scores.mean_output_tokens if scores else None,
            **({"components": dict(scores.components)} if scores and scores.components else {}),
        }


@dataclass(frozen=True, slots=True)
class RunSummary:
    total: GroupSummary
    by_agent: Sequence[GroupSummary]
    by_family: Sequence[GroupSummary]
    """One summary per family; empty unless the run was loaded with `group_by`."""
    completeness: RunCompleteness
    notices: Sequence[str]


def _views_at_k(scored: Sequence[PassAtK], ranges: Sequence[RangeAtK]) -> list[JsonDict]:
    """Return both views for each k; `scored` is null when no task has k scored rollouts."""
    values = {at.k: at for at in scored}
    return [
        {
            "k": at.k,
            "scored": values[at.k].value if at.k in values else None,
            "requested": at.value.as_json(),
            "tasks_scored": values[at.k].tasks if at.k in values else 0,
            "tasks_requested": at.tasks,
        }
        for at in ranges
    ]


def summarize(frame: RunFrame) -> RunSummary:
    """Return the summary of a run: overall, by agent, and by family when it was loaded with
    `group_by`.
    """
    everything = np.ones(len(frame.requests), dtype=np.bool_)
    families = frame.families
    return RunSummary(
        total=summarize_group(frame, everything, "all"),
        by_agent=list(_by_label(frame, frame.agents, [ref.name for ref in frame.agents.names])),
        by_family=[] if families is None else list(_by_label(frame, families, families.names)),
        completeness=frame.completeness,
        notices=frame.notices,
    )


def _by_label(
    frame: RunFrame, labels: RequestLabels[Any], names: Sequence[str]
) -> Iterator[GroupSummary]:
    """Yield one summary per label, sorted by name; requests without a label come last."""
    present = set(np.unique(labels.codes).tolist())
    for code in sorted(present - {-1}, key=lambda code: (names[code], labels.names[code])):
        yield summarize_group(frame, labels.codes == code, names[code])
    if -1 in present:
        yield summarize_group(frame, labels.codes == -1, UNLABELLED)


def summarize_group(frame: RunFrame, chosen: BoolArray, name: str = "") -> GroupSummary:
    """Return the summary of the `chosen` requests, at least one."""
    requests, reward = frame.requests, frame.rollouts.reward
    outcome: IntArray = requests.outcome[chosen]
    counts = dict(counts_by_name(requests.outcome_names, outcome))
    scored = counts.pop(SCORED, 0)
    rows: BoolArray = chosen[requests.scored]
    return GroupSummary(
        name=name,
        tasks=len(np.unique(requests.keys.task[chosen])),
        requested=len(outcome),
        scored=scored,
        truncated=int(np.sum(frame.endings.truncated[rows])),
        empty_answers=int(np.sum(frame.endings.empty[rows])),
        failures=counts,
        unaccounted=int(np.sum(outcome == NO_OUTCOME)),
        scores=_scores(frame.rollouts.select(rows)) if scored else None,
        over_requested=over_requested(
            reward[rows],
            requests.scored[chosen],
            starts_of_sorted(requests.keys.task[chosen]),
            reward_range(reward),
        ),
    )


def _scores(rollouts: Rollouts) -> GroupScores:
    tasks = len(rollouts.tasks)
    solved, trials = solved_by_task(rollouts), rollouts.per_task
    pass_at, pass_hat = pass_powers(rollouts.reward, rollouts.starts)
    never, always = int(np.sum(solved == 0)), int(np.sum(solved == trials))
    return GroupScores(
        tasks=tasks,
        mean_reward=_mean_reward(rollouts),
        pass_at=pass_at,
        pass_hat=pass_hat,
        never_solved=never / tasks,
        sometimes_solved=(tasks - never - always) / tasks,
        always_solved=always / tasks,
        mean_input_tokens=_mean(rollouts, "input_tokens"),
        mean_output_tokens=_mean(rollouts, "output_tokens"),
        components={
            component: mean
            for component, field in component_fields(rollouts.columns).items()
            if (mean := _mean(rollouts, field)) is not None
        },
    )


def _mean_reward(rollouts: Rollouts) -> Estimate:
    """Return the mean over all rollouts, with a bootstrap interval clustered by task."""
    return estimate_level(
        sum_by_group(rollouts.reward, rollouts.starts),
        rollouts.per_task,
        limits=reward_range(rollouts.reward),
    )


def _mean(rollouts: Rollouts, field: str) -> float | None:
    column = rollouts.columns.values.get(field)
    if column is None or np.isnan(column).all():
        return None
    present = column[~np.isnan(column)]
    return float(mean_by_group(present, np.array([0, len(present)]))[0])


def write_agent_metrics(frame: RunFrame, path: Path | str) -> None:
    """Write the result of `agent_metrics` to `path` as one JSON array."""
    write_json(Path(path), agent_metrics(frame))


def agent_metrics(frame: RunFrame) -> list[JsonDict]:
    """Return one object per agent, sorted by name: `agent_ref`, counts, the statistics of every
    numeric field, `summary`.

    `summary` is the result of `GroupSummary.as_json`. An agent without scored rollouts has no
    statistics. Requests without an agent come first, with `agent_ref` null.
    """
    agents, codes = _by_name(frame.agents)
    of_rollout = codes[frame.requests.scored]
    order = np.argsort(of_rollout, kind="stable")
    rows = statistics_rows(frame.rollouts.columns.take(order), starts_of_sorted(of_rollout[order]))
    statistics = dict(zip(np.unique(of_rollout).tolist(), rows, strict=True))
    return [
        {
            "agent_ref": agents[code].as_ref() if code >= 0 else None,
            **_counts(frame, chosen),
            **statistics.get(code, {}),
            "summary": summarize_group(frame, chosen).as_json(),
        }
        for code in np.unique(codes).tolist()
        for chosen in (codes == code,)
    ]


def _counts(frame: RunFrame, chosen: BoolArray) -> JsonDict:
    expected = int(chosen.sum())
    scored = int((chosen & frame.requests.scored).sum())
    return {
        "num_rollouts": scored,
        "expected_num_rollouts": expected,
        "missing_num_rollouts": expected - scored,
    }


def _by_name(labels: RequestLabels[AgentName]) -> tuple[Sequence[AgentName], IntArray]:
    """Return the agents sorted by name, and the codes renumbered to match, so that the order of
    rows does not matter.
    """
    order = sorted(range(len(labels.names)), key=labels.names.__getitem__)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return [labels.names[code] for code in order], rank[labels.codes]
