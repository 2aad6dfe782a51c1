"""Computes the main numbers of a run: overall, by family, and by agent with full statistics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from palestra.analysis.report.unused_weights import unused_weights
from palestra.analysis.task_rows import solved_by_task
from palestra.analysis.views import (
    OverRequested,
    PassAtK,
    RangeAtK,
    over_requested,
    pass_at_ks,
    reward_range,
    with_absent,
)
from palestra.analysis.writing import write_json
from palestra.metrics import (
    BoolArray,
    FloatArray,
    IntArray,
    Rollouts,
    component_fields,
    distinct,
    mean_by_group,
    starts_of_sorted,
    statistics_rows,
    sum_by_group,
)
from palestra.schema import TURN_LIMIT_REACHED, JsonDict, Unscored, UnusedWeights

UNLABELLED = "(none)"


@dataclass(frozen=True, slots=True)
class GroupScores:
    """The scores of a group's scored rollouts."""

    tasks: int
    """The number of tasks with a scored rollout; the `_solved` fractions are of this number."""
    mean_reward: Estimate
    pass_at: Sequence[PassAtK]
    """pass@k for k = 1, 2, 4, … and the largest number of rollouts of a task."""
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
class OutsideRules:
    """The rewards that lie outside the reward rules of their environments."""

    rewards: int
    """Their number."""
    lowest: float
    highest: float

    @classmethod
    def of(cls, rewards: FloatArray) -> "OutsideRules | None":
        """Return the summary of these rewards; None without any."""
        if not len(rewards):
            return None
        return cls(len(rewards), float(rewards.min()), float(rewards.max()))


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
    at_turn_limit: int
    """The number of scored rollouts that the limit of turns ended."""
    tool_failures: int
    """The number of scored rollouts in which a tool raised an exception that its author did not
    mean."""
    outside_rules: OutsideRules | None
    """The rewards outside the reward rules of their environments; None without any."""
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
            "at_turn_limit": self.at_turn_limit,
            "tool_failures": self.tool_failures,
            "outside_reward_rules": self.outside_rules.rewards if self.outside_rules else 0,
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
class RolloutToLookAt:
    """The rollout of a run that says most: the first without a reward, else one with the lowest."""

    key: str
    """`TASK:ROLLOUT`."""
    has_reward: bool
    is_lowest: bool
    """Whether other rollouts have a higher reward."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    total: GroupSummary
    by_agent: Sequence[GroupSummary]
    by_family: Sequence[GroupSummary]
    """One summary per family; empty unless the run was loaded with `group_by`."""
    completeness: RunCompleteness
    unscored: Unscored
    """The requests without a score, counted by remedy."""
    notices: Sequence[str]
    unused_weights: Sequence[UnusedWeights]
    """The weights of environments that had no effect in the run."""
    to_look_at: RolloutToLookAt | None
    """None when no rollout has ended."""


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
    total = _with_missing_shards(frame, summarize_group(frame, everything, "all"))
    agents, families = frame.agents, frame.families
    return RunSummary(
        total=total,
        by_agent=list(_by_label(frame, agents, [ref.name for ref in agents.names], total)),
        by_family=[]
        if families is None
        else list(_by_label(frame, families, families.names, total)),
        completeness=frame.completeness,
        unscored=frame.unscored,
        notices=frame.notices,
        unused_weights=unused_weights(frame),
        to_look_at=_to_look_at(frame),
    )


def _to_look_at(frame: RunFrame) -> RolloutToLookAt | None:
    requests, has_reward, is_lowest = frame.requests, not len(frame.failed), False
    if not has_reward:
        request = int(frame.failed.requests[0])
    elif len(frame.rollouts):
        reward = frame.rollouts.reward
        request = int(np.flatnonzero(requests.scored)[np.argmin(reward)])
        is_lowest = bool(reward.min() < reward.max())
    else:
        return None
    task = requests.tasks[requests.keys.task[request]]
    return RolloutToLookAt(f"{task}:{requests.keys.rollout[request]}", has_reward, is_lowest)


def _with_missing_shards(frame: RunFrame, total: GroupSummary) -> GroupSummary:
    """Count the rollouts of shards that left no files as requested. Their tasks are not known."""
    if frame.missing_shards is None:
        return total
    absent = frame.missing_shards.rollouts
    return replace(
        total,
        requested=total.requested + absent,
        unaccounted=total.unaccounted + absent,
        over_requested=with_absent(
            total.over_requested,
            present=total.requested,
            absent=absent,
            bounds=reward_range(frame.rollouts.reward),
        ),
    )


def _by_label(
    frame: RunFrame, labels: RequestLabels[Any], names: Sequence[str], total: GroupSummary
) -> Iterator[GroupSummary]:
    """Yield one summary per label, sorted by name; requests without a label come last. `total`: the
    summary of all requests.
    """
    present = set(distinct(labels.codes).tolist())
    codes = sorted(present - {-1}, key=lambda code: (names[code], labels.names[code]))
    for code in codes + sorted(present & {-1}):
        name = UNLABELLED if code == -1 else names[code]
        if len(present) == 1:
            yield replace(total, name=name)
        else:
            yield summarize_group(frame, labels.codes == code, name)


def summarize_group(frame: RunFrame, chosen: BoolArray, name: str = "") -> GroupSummary:
    """Return the summary of the `chosen` requests, at least one."""
    requests, reward = frame.requests, frame.rollouts.reward
    outcome: IntArray = requests.outcome[chosen]
    counts = dict(counts_by_name(requests.outcome_names, outcome))
    scored = counts.pop(SCORED, 0)
    rows: BoolArray = chosen[requests.scored]
    return GroupSummary(
        name=name,
        tasks=len(distinct(requests.keys.task[chosen])),
        requested=len(outcome),
        scored=scored,
        truncated=int(np.sum(frame.endings.truncated[rows])),
        empty_answers=int(np.sum(frame.endings.empty[rows])),
        at_turn_limit=_at_turn_limit(frame.rollouts, rows),
        tool_failures=int(np.sum(frame.endings.broken_tools[rows])),
        outside_rules=OutsideRules.of(reward[rows & frame.endings.outside_rules]),
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


def _at_turn_limit(rollouts: Rollouts, rows: BoolArray) -> int:
    column = rollouts.columns.values.get(TURN_LIMIT_REACHED)
    return 0 if column is None else int(np.sum(column[rows] == 1))


def _scores(rollouts: Rollouts) -> GroupScores:
    tasks = len(rollouts.tasks)
    solved, trials = solved_by_task(rollouts), rollouts.per_task
    pass_at, pass_hat = pass_at_ks(rollouts.reward, rollouts.starts)
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
    statistics = dict(zip(distinct(of_rollout).tolist(), rows, strict=True))
    return [
        {
            "agent_ref": agents[code].as_ref() if code >= 0 else None,
            **_counts(frame, chosen),
            **statistics.get(code, {}),
            "summary": summarize_group(frame, chosen).as_json(),
        }
        for code in distinct(codes).tolist()
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
