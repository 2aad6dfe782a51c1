"""What the report says of a run, as values: key figures, remarks, endings, components.

`overview` and `figures` draw these values; others read them from `report_values`. Does no I/O, but
for the rows of cut answers and of short ones (`row_facts`), and for the manifest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from palestra.analysis.advice import Advice, advice_about
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
from palestra.analysis.report.markup import amount, number, percent, visible_line
from palestra.analysis.report.row_facts import RefusedNumber, RowFacts, read_row_facts
from palestra.analysis.report.short_answers import ShortAnswers
from palestra.analysis.summary import GroupScores, GroupSummary, OutsideRules, RunSummary
from palestra.analysis.task_rows import solved_by_task
from palestra.errors import Outcome
from palestra.metrics import (
    FloatArray,
    Rollouts,
    describe,
    group_of_rows,
    starts_of_sorted,
)
from palestra.schema import REWARD_COMPONENTS, UnusedWeights

MOST_NAMED = 3
MOST_LISTED = 20
"""A list of more rollouts is no query: it would be too long."""
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
    query: str = ""
    """Selects the rollouts that the finding is about, in `palestra view`."""


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


def report_values(
    frame: RunFrame, summary: RunSummary, advice: Advice | None = None
) -> ReportValues:
    """Return what the report says of a run. `advice`: of `advice_about`, which reads the manifest."""
    rollouts = frame.rollouts
    has_scores = len(rollouts) > 0
    binary = has_scores and is_binary(rollouts.reward)
    return ReportValues(
        binary=binary,
        key_figures=list(key_figures(summary, binary=binary)) if has_scores else [],
        remarks=list(remarks(frame, summary, advice)),
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


def remarks(frame: RunFrame, summary: RunSummary, advice: Advice | None = None) -> Iterator[Remark]:
    """Yield the findings and recommended next steps."""
    advice = advice or advice_about(frame.rollout_places.files)
    if len(frame.rollouts):
        binary = is_binary(frame.rollouts.reward)
        yield from _teaching(frame.rollouts, advice)
        yield from _headroom(pass_curve(frame.rollouts, scores_of(summary)), binary=binary)
        answers = CutAnswers.of(frame, binary=binary)
        short = ShortAnswers.of(frame)
        facts = read_row_facts(frame, short)
        if answers is not None:
            yield _cut_answers(answers, facts, summary.total.scored)
        if short is not None:
            yield _short_answers(short, facts)
        if facts.refused_numbers:
            yield _refused(facts.refused_numbers)
        if summary.total.outside_rules is not None:
            yield _outside(summary.total.outside_rules)
        yield from map(_unused, summary.unused_weights)
    yield from _coverage(summary.total, advice(frame.unscored.what_helps()))


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
    if total.at_turn_limit:
        limit = "of the scored: ended by max_turns of the environment, or max_steps of the agent"
        yield Ending("turn limit", total.at_turn_limit, limit)
    if total.tool_failures:
        broken = "of the scored: a tool raised what its author did not mean"
        yield Ending("tool failures", total.tool_failures, broken)
    for name, count in sorted(total.failures.items()):
        yield Ending(name, count, _CAUSES.get(name, ""))
    if total.unaccounted:
        yield Ending("no trace", total.unaccounted, "never started, or in flight at a kill")


def components(rollouts: Rollouts) -> Iterator[Component]:
    """Yield the components of the reward, by name."""
    prefix = f"{REWARD_COMPONENTS}."
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


def over_tasks(counted: int, tasks: int) -> str:
    """Return which part of the scored tasks a pass@k is over: those with k scored rollouts. Empty
    when it is over all of them.
    """
    return f"over {counted:,} of {amount(tasks, 'task')}" if counted < tasks else ""


def _passes(scores: GroupScores, *, binary: bool) -> Iterator[KeyFigure]:
    first, last = scores.pass_at[0], scores.pass_at[-1]
    value = passed_text(first.value, binary=binary)
    yield KeyFigure(f"pass@{first.k}", value, "one rollout")
    if last.k != first.k:
        value = passed_text(last.value, binary=binary)
        notes = f"best of {last.k}", over_tasks(last.tasks, scores.tasks)
        yield KeyFigure(f"pass@{last.k}", value, ", ".join(filter(None, notes)))


def _dropped(count: int) -> str:
    return f"{count:,} more without a score" if count else "all with a score"


def _teaching(rollouts: Rollouts, advice: Advice) -> Iterator[Remark]:
    if int(rollouts.per_task.max()) == 1:
        yield Remark(
            "One rollout per task.",
            advice("Only repeated rollouts show whether a task teaches: use --repeats 4."),
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


def _cut_answers(answers: CutAnswers, facts: RowFacts, scored: int) -> Remark:
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
    if facts.cut_with_answer:
        text += (
            f" {facts.cut_with_answer:,} of them {'has' if facts.cut_with_answer == 1 else 'have'} "
            "an extracted answer all the same."
        )
    text += "".join(f" {sentence}" for sentence in _limits(answers, facts))
    return Remark(
        f"{amount(answers.count, 'answer')} of {scored:,} ({percent(answers.count / scored)}) "
        f"{'was' if answers.count == 1 else 'were'} cut off at a limit on tokens or context.",
        text,
        "truncated:true",
    )


def _limits(answers: CutAnswers, facts: RowFacts) -> Iterator[str]:
    """Yield at which lengths answers were cut, and whether the numbers speak for a higher limit."""
    if facts.limits:
        yield f"Their rows set max_output_tokens to {_ends(facts.limits[0], facts.limits[-1])}."
    if answers.length is None or answers.shortest is None or answers.longest is None:
        return
    yield (
        f"A cut answer has {_ends(answers.shortest, answers.longest)} output tokens "
        f"(median {number(answers.length)})."
    )
    if not answers.is_one_limit:
        yield (
            "The cut answers have no length in common, so the numbers do not say whether a higher "
            "limit on output tokens helps."
        )
    elif answers.solved_near_limit is not None:
        yield (
            f"{percent(answers.solved_near_limit)} of the complete and solved answers have more "
            "than half of the median: "
            + (
                "a higher limit may help."
                if answers.more_tokens_help
                else "look for loops in the cut answers before you raise the limit."
            )
        )


def _ends(low: float, high: float) -> str:
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _short_answers(short: ShortAnswers, facts: RowFacts) -> Remark:
    """Return where a reward may be gamed. Reading decides, so the words are careful."""
    text = f"The median of the solved answers is {number(short.median)}. "
    if facts.with_verdict:
        verb = "contains" if facts.with_verdict == 1 else "contain"
        text += f"{facts.with_verdict:,} of the short ones {verb} the verdict of their judge. "
    return Remark(
        f"{amount(len(short.rollouts), 'solved answer')} have at most "
        f"{amount(short.longest, 'output token')}.",
        text + "Read them: a reward that is gamed often looks so.",
        # with all digits, since a query compares exactly
        f"outcome:scored reward>={short.lowest_reward:.17g} tokens.out<={short.longest}",
    )


def _refused(rollouts: Sequence[RefusedNumber]) -> Remark:
    """Return where the verifier may be wrong about a number."""
    shown_names = [
        f"{visible_line(str(r.task), 40)}:{r.rollout} ({r.extracted}, expected {r.expected})"
        for r in rollouts[:MOST_NAMED]
    ]
    further = len(rollouts) - len(shown_names)
    verb, advice = ("equals", "Read it") if len(rollouts) == 1 else ("equal", "Read them")
    keys = [f"(task:{r.task} rollout:{r.rollout})" for r in rollouts if type(r.task) is int]
    has_query = len(keys) == len(rollouts) <= MOST_LISTED
    return Remark(
        f"{amount(len(rollouts), 'answer')} with reward 0 {verb} the expected one as a number.",
        f"{', '.join(shown_names)}{f' and {further:,} more' if further else ''}. {advice}: the verifier "
        "may compare texts, or something else than the answer decides.",
        f"outcome:scored ({' or '.join(keys)})" if has_query else "",
    )


def _outside(outside: OutsideRules) -> Remark:
    """Return that rewards lie outside the reward rules of the environment."""
    lowest, highest = f"{outside.lowest:g}", f"{outside.highest:g}"
    return Remark(
        f"{amount(outside.rewards, 'reward')} {'lies' if outside.rewards == 1 else 'lie'} outside "
        "the environment's reward_rules:",
        f"{lowest if lowest == highest else f'from {lowest} to {highest}'}. Without rules, rewards are "
        "from 0 to 1. If that is meant, declare reward_rules in the environment; else fix its verifier.",
    )


def _unused(unused: UnusedWeights) -> Remark:
    """Return that weights of the environment had no effect."""
    which = f" of {visible_line(unused.agent, 40)}" if unused.agent else ""
    return Remark(
        f"{amount(len(unused.weights), 'weight')}{which} had no effect:",
        f"{visible_line(str(unused), 400)}. Give each weight the name of its component, or remove it; a "
        "component without a weight counts once.",
    )


def _coverage(total: GroupSummary, what_helps: str) -> Iterator[Remark]:
    """Yield how many rollouts have no score, and what helps."""
    missing = total.requested - total.scored
    if missing:
        yield Remark(
            f"{amount(missing, 'requested rollout')} of {total.requested:,} "
            f"{'has' if missing == 1 else 'have'} no score.",
            "They count in no number here but coverage; a failure is not a zero. "
            f"What helps: {what_helps}.",
        )
