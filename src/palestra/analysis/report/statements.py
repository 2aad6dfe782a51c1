"""What the report says of a run, as values: key figures, remarks, endings, components.

`overview` and `figures` draw these values; others read them from `report_values`. Does no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.intervals import Estimate
from palestra.analysis.report.cut_answers import CutAnswers
from palestra.analysis.report.facts import (
    ENOUGH_TASKS,
    Bar,
    CurvePoint,
    Lengths,
    Spread,
    is_binary,
    lengths,
    pass_curve,
    pass_rate_bars,
    reward_bars,
    solved_counts,
    spread,
)
from palestra.analysis.report.markup import amount, number, percent
from palestra.analysis.summary import GroupScores, GroupSummary, RunSummary
from palestra.analysis.task_rows import solved_by_task
from palestra.errors import Outcome
from palestra.metrics import (
    COMPONENTS,
    FloatArray,
    Rollouts,
    describe,
    group_of_rows,
    starts_of_sorted,
)
from palestra.schema import Unscored

WORTH_TRYING_AGAIN = 0.1
"""From this gain of the best of k over a single rollout on, the report calls the gain large."""

_CAUSES: Mapping[str, str] = MappingProxyType(
    {
        Outcome.POLICY_ERROR: "the model server refused or broke the request",
        Outcome.INFRA_ERROR: "a server died or could not be reached",
        Outcome.DATA_ERROR: "the row does not fit its environment",
        Outcome.AGENT_ERROR: "the agent's code raised an exception",
        Outcome.ENVIRONMENT_ERROR: "the environment raised an exception while it was used",
        Outcome.VERIFIER_ERROR: "the verifier raised an exception",
        Outcome.JUDGE_ERROR: "the judge model gave no usable answer",
        Outcome.TIMEOUT: "out of time",
        Outcome.CANCELLED: "stopped from outside",
    }
)


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A key figure of the run, as text. `note`: its interval, or what it counts."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding in one or two sentences. `head` is emphasized."""

    head: str
    text: str


@dataclass(frozen=True, slots=True)
class Ending:
    """The number of requested rollouts that ended in one way; `meaning` is empty for unknown names."""

    name: str
    count: int
    meaning: str


@dataclass(frozen=True, slots=True)
class Component:
    """The values of one component of the reward. `mean`: with its interval over tasks."""

    name: str
    rollouts: int
    mean: Spread
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class ReportValues:
    """The numbers and sentences of the report. Of a run without scores, most are empty."""

    binary: bool
    """Whether every reward is 0 or 1."""
    key_figures: Sequence[KeyFigure]
    remarks: Sequence[Remark]
    notices: Sequence[str]
    solved: tuple[int, int, int]
    """The number of tasks never, sometimes and always solved."""
    pass_rates: Sequence[Bar]
    curve: Sequence[CurvePoint]
    rewards: Sequence[Bar]
    lengths: Lengths | None
    endings: Sequence[Ending]
    components: Sequence[Component]
    groups: Sequence[GroupSummary]
    """One per family, else per agent."""


def report_values(frame: RunFrame, summary: RunSummary) -> ReportValues:
    """Return what the report says of a run."""
    rollouts = frame.rollouts
    has_scores = len(rollouts) > 0
    binary = has_scores and is_binary(rollouts.reward)
    return ReportValues(
        binary=binary,
        key_figures=list(key_figures(summary, binary=binary)) if has_scores else [],
        remarks=list(remarks(frame, summary)),
        notices=summary.notices,
        solved=solved_counts(rollouts) if has_scores else (0, 0, 0),
        pass_rates=pass_rate_bars(solved_by_task(rollouts), rollouts.per_task)
        if has_scores
        else [],
        curve=pass_curve(rollouts, scores_of(summary)) if has_scores else [],
        rewards=reward_bars(rollouts.reward) if has_scores else [],
        lengths=lengths(rollouts) if has_scores else None,
        endings=list(endings(summary)),
        components=list(components(rollouts)),
        groups=summary.by_family or summary.by_agent,
    )


def key_figures(summary: RunSummary, *, binary: bool) -> Iterator[KeyFigure]:
    """Yield mean reward, pass rates, coverage, tasks and tokens of a run with scores."""
    total = summary.total
    scores = scores_of(summary)
    yield KeyFigure("Mean reward", number_of(scores.mean_reward), _interval(scores.mean_reward))
    yield from _passes(scores, binary=binary)
    yield KeyFigure("Coverage", percent(total.coverage), f"{total.scored:,} of {total.requested:,}")
    yield KeyFigure("Tasks", f"{scores.tasks:,}", _dropped(total.tasks - scores.tasks))
    for name, tokens in (
        ("Input tokens", scores.mean_input_tokens),
        ("Output tokens", scores.mean_output_tokens),
    ):
        if tokens is not None:
            yield KeyFigure(name, number(tokens), "mean per rollout")


def remarks(frame: RunFrame, summary: RunSummary) -> Iterator[Remark]:
    """Yield the findings and recommended next steps."""
    if len(frame.rollouts):
        binary = is_binary(frame.rollouts.reward)
        yield from _teaching(frame.rollouts)
        yield from _headroom(pass_curve(frame.rollouts, scores_of(summary)), binary=binary)
        answers = CutAnswers.of(frame, binary=binary)
        if answers is not None:
            yield _cut_answers(answers, summary.total.scored)
    yield from _coverage(summary.total, frame.unscored)


def endings(summary: RunSummary) -> Iterator[Ending]:
    """Yield how the requested rollouts ended."""
    total = summary.total
    yield Ending("scored", total.scored, "has a reward")
    if total.truncated:
        cut = "of the scored: cut off at a limit on tokens or context"
        yield Ending(Outcome.TRUNCATED.value, total.truncated, cut)
    if total.empty_answers:
        nothing = "of the scored: neither text nor a tool call"
        yield Ending("empty answers", total.empty_answers, nothing)
    for name, count in sorted(total.failures.items()):
        yield Ending(name, count, _CAUSES.get(name, ""))
    if total.unaccounted:
        yield Ending("no trace", total.unaccounted, "never started, or in flight at a kill")


def components(rollouts: Rollouts) -> Iterator[Component]:
    """Yield the components of the reward, by name."""
    prefix = f"{COMPONENTS}."
    for name, column in sorted(rollouts.columns.values.items()):
        if name.startswith(prefix):
            yield _component(name.removeprefix(prefix), column, rollouts)


def _component(name: str, column: FloatArray, rollouts: Rollouts) -> Component:
    present = ~np.isnan(column)
    values = column[present]
    starts = starts_of_sorted(group_of_rows(rollouts.starts)[present])
    mean = spread(values, starts)
    return Component(name, len(values), mean, float(values.min()), float(values.max()))


def scores_of(summary: RunSummary) -> GroupScores:
    """Return the scores of the run. A frame has at least one scored rollout, so they exist."""
    scores = summary.total.scores
    if scores is None:
        raise ValueError("a report needs at least one scored rollout, and the run has none")
    return scores


def number_of(estimate: Estimate) -> str:
    return f"{estimate.value:.3f}"


def passed_text(value: float, *, binary: bool) -> str:
    """Format a pass@k: a percentage for 0/1 rewards, else an expected maximum."""
    return percent(value) if binary else f"{value:.3f}"


def ends_text(estimate: Estimate) -> str:
    """Format both ends of an interval. They may lie at different distances from the mean."""
    return "" if estimate.low is None else f"{estimate.low:.3f} to {estimate.high:.3f}"


def _interval(estimate: Estimate) -> str:
    return f"{ends_text(estimate)} (95 %)" if estimate.low is not None else "of one task"


def _passes(scores: GroupScores, *, binary: bool) -> Iterator[KeyFigure]:
    first, last = scores.pass_at[0], scores.pass_at[-1]
    value = passed_text(first.value, binary=binary)
    yield KeyFigure(f"pass@{first.k}", value, "one rollout")
    if last.k != first.k:
        value = passed_text(last.value, binary=binary)
        yield KeyFigure(f"pass@{last.k}", value, f"best of {last.k}")


def _dropped(count: int) -> str:
    return f"{count:,} more without a score" if count else "all with a score"


def _teaching(rollouts: Rollouts) -> Iterator[Remark]:
    if int(rollouts.per_task.max()) == 1:
        yield Remark(
            "One rollout per task.",
            "Only repeated rollouts show whether a task teaches: use --repeats 4.",
        )
        return
    total = len(rollouts.tasks)
    varied = int(np.sum(describe(rollouts.reward, rollouts.starts).std > 0))
    yield Remark(
        f"In {varied:,} of {amount(total, 'task')} the rollouts differ in reward.",
        "Group-relative training learns from such tasks"
        + (", and nothing from the others." if varied < total else "."),
    )
    if not solved_by_task(rollouts).any():
        yield Remark(
            "No reward reaches 1,",
            "so no task counts as solved. Read mean, spread and best of k instead.",
        )


def _headroom(points: Sequence[CurvePoint], *, binary: bool) -> Iterator[Remark]:
    """Yield a statement on the gain of the best of k, when its interval supports one."""
    point = [point for point in points if point.tasks == points[0].tasks][-1]
    gain = point.gain
    if gain is None or gain.low is None or gain.high is None or point.tasks < ENOUGH_TASKS:
        return
    if binary:
        above, ends = (
            f"{100 * gain.mean:.0f} points",
            f"{100 * gain.low:.0f} to {100 * gain.high:.0f}",
        )
    else:
        above, ends = f"{gain.mean:.3f}", f"{gain.low:.3f} to {gain.high:.3f}"
    if gain.low >= WORTH_TRYING_AGAIN:
        yield Remark(
            f"The best of {point.k} is {above} above a single rollout ({ends}):",
            "the model often can, but not reliably. That is room for training.",
        )
    elif gain.high < WORTH_TRYING_AGAIN:
        yield Remark(
            f"The best of {point.k} is only {above} above a single rollout ({ends}):",
            "trying again adds little. Harder or easier tasks would tell more than more rollouts.",
        )


def _cut_answers(answers: CutAnswers, scored: int) -> Remark:
    text = f"Their mean reward is {answers.mean_reward:.3f}"
    if answers.complete_mean_reward is not None:
        text += f", that of the others {answers.complete_mean_reward:.3f}"
    text += "."
    if answers.solved:
        text += f" {answers.solved:,} of them {'is' if answers.solved == 1 else 'are'} solved."
    if answers.best_mean_reward is not None:
        text += (
            f" If all of them were right, the run's mean reward would be "
            f"{answers.best_mean_reward:.3f} instead of {answers.run_mean_reward:.3f}."
        )
    if answers.length is not None and answers.solved_near_limit is not None:
        text += (
            f" A cut answer has {number(answers.length)} output tokens (median); "
            f"{percent(answers.solved_near_limit)} of the complete and solved answers have more "
            "than half of that: "
        )
        text += (
            "a higher limit probably helps."
            if answers.more_tokens_help
            else "look for loops in the cut answers before you raise the limit."
        )
    return Remark(
        f"{amount(answers.count, 'answer')} of {scored:,} ({percent(answers.count / scored)}) "
        f"{'was' if answers.count == 1 else 'were'} cut off at a limit on tokens or context.",
        text,
    )


def _coverage(total: GroupSummary, unscored: Unscored) -> Iterator[Remark]:
    """Yield how many rollouts have no score, and what helps."""
    missing = total.requested - total.scored
    if missing:
        yield Remark(
            f"{amount(missing, 'requested rollout')} of {total.requested:,} have no score.",
            "They count in no number here but coverage; a failure is not a zero. "
            f"What helps: {unscored.what_helps()}.",
        )
