"""Builds the top of the report: key figures, findings, and how the requests ended."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.intervals import Estimate
from palestra.analysis.report.charts import meter, share_bar
from palestra.analysis.report.facts import (
    ENOUGH_TASKS,
    CurvePoint,
    is_binary,
    pass_curve,
    solved_counts,
    spread,
)
from palestra.analysis.report.markup import (
    Markup,
    amount,
    number,
    percent,
    tag,
    together,
    visible_line,
)
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
MOST_GROUPS = 60

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


def key_figures(summary: RunSummary, *, binary: bool) -> Markup:
    """Return the row of key figures: mean reward, pass rates, coverage, tasks and tokens."""
    total = summary.total
    scores = scores_of(summary)
    figures = [
        _figure("Mean reward", number_of(scores.mean_reward), _interval(scores.mean_reward)),
        *_passes(scores, binary=binary),
        _figure("Coverage", percent(total.coverage), f"{total.scored:,} of {total.requested:,}"),
        _figure("Tasks", f"{scores.tasks:,}", _dropped(total.tasks - scores.tasks)),
    ]
    for name, tokens in (
        ("Input tokens", scores.mean_input_tokens),
        ("Output tokens", scores.mean_output_tokens),
    ):
        if tokens is not None:
            figures.append(_figure(name, number(tokens), "mean per rollout"))
    return tag("dl", *figures, class_="key-figures")


def solved_split(frame: RunFrame) -> Markup:
    """Return one bar and its legend: the shares of tasks never, sometimes and always solved."""
    counts = dict(zip(("never", "sometimes", "always"), solved_counts(frame.rollouts), strict=True))
    total = sum(counts.values())
    parts = [
        (name, count / total, f"{name} solved: {amount(count, 'task')} ({percent(count / total)})")
        for name, count in counts.items()
    ]
    legend = (
        tag(
            "li",
            tag("span", class_=f"key {name}"),
            tag("b", percent(count / total)),
            f" {name} solved ",
            tag("span", amount(count, "task"), class_="quiet"),
        )
        for name, count in counts.items()
    )
    label = ", ".join(tip for _, _, tip in parts)
    return tag(
        "div", share_bar(parts, label=label), tag("ul", *legend, class_="legend"), class_="split"
    )


def findings(frame: RunFrame, summary: RunSummary) -> Markup:
    """Return the findings and recommended next steps, one or two sentences each, followed by the
    notices.
    """
    sentences = (
        _findings(frame, summary)
        if len(frame.rollouts)
        else coverage(summary.total, frame.unscored)
    )
    items = [tag("li", tag("b", f"{head} "), text) for head, text in sentences]
    notices = [tag("li", tag("b", "Note. "), text) for text in summary.notices]
    return tag("ul", *items, *notices, class_="findings")


def outcomes(summary: RunSummary) -> Markup:
    """Return a table of how the requested rollouts ended."""
    total = summary.total
    ends = [("scored", total.scored, "has a reward")]
    if total.truncated:
        cut = "of the scored: cut off at a limit on tokens or context"
        ends.append((Outcome.TRUNCATED.value, total.truncated, cut))
    if total.empty_answers:
        ends.append(
            ("empty answers", total.empty_answers, "of the scored: neither text nor a tool call")
        )
    ends += [(name, n, _CAUSES.get(name, "")) for name, n in sorted(total.failures.items())]
    if total.unaccounted:
        ends.append(("no trace", total.unaccounted, "never started, or in flight at a kill"))
    rows = (
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag(
                "td",
                meter(n / total.requested, "plain" if name == "scored" else "never"),
                class_="wide",
            ),
            tag("td", f"{n:,}", class_="n"),
            tag("td", percent(n / total.requested), class_="n"),
            tag("td", why, class_="quiet"),
        )
        for name, n, why in ends
    )
    heads = (("Outcome", None), ("", "wide"), ("Rollouts", "n"), ("Share", "n"), ("", None))
    head = (tag("th", text, scope="col", class_=class_) for text, class_ in heads)
    return _scrolling(tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)))


def components(rollouts: Rollouts) -> Markup | None:
    """Return a table with one line per component of the reward; None when it has none."""
    prefix = f"{COMPONENTS}."
    rows = [
        _component(name.removeprefix(prefix), column, rollouts)
        for name, column in sorted(rollouts.columns.values.items())
        if name.startswith(prefix)
    ]
    if not rows:
        return None
    heads = (("Component", None), ("Rollouts", "n"), ("Mean", "n"), ("Least", "n"), ("Most", "n"))
    head = (tag("th", text, scope="col", class_=class_) for text, class_ in heads)
    return _scrolling(tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)))


def _component(name: str, column: FloatArray, rollouts: Rollouts) -> Markup:
    present = ~np.isnan(column)
    values = column[present]
    starts = starts_of_sorted(group_of_rows(rollouts.starts)[present])
    mean = spread(values, starts)
    interval = "" if mean.low is None else f"{mean.low:.3f} to {mean.high:.3f}"
    return tag(
        "tr",
        tag("th", visible_line(name, 60), scope="row"),
        tag("td", f"{len(values):,}", class_="n"),
        tag("td", f"{mean.mean:.3f}", tag("small", interval), class_="n"),
        tag("td", f"{values.min():.3g}", class_="n"),
        tag("td", f"{values.max():.3g}", class_="n"),
    )


def groups(summary: RunSummary, *, binary: bool) -> Markup | None:
    """Return a table with one line per family or agent; None when there is only one."""
    title, lines = (
        ("Family", summary.by_family) if summary.by_family else ("Agent", summary.by_agent)
    )
    if len(lines) < 2:
        return None
    most_k = max((s.pass_at[-1].k for g in lines if (s := g.scores)), default=1)
    best = (f"pass@{most_k}",) if most_k > 1 else ()
    heads = (title, "Tasks", "Scored", "Mean reward", "pass@1", *best, "", "Tokens")
    classes = (None, *("n",) * (len(heads) - 3), "wide", "n")
    head = (
        tag("th", text, scope="col", class_=class_)
        for text, class_ in zip(heads, classes, strict=True)
    )
    rows = (_group(line, most_k, binary=binary) for line in lines[:MOST_GROUPS])
    left_out = len(lines) - MOST_GROUPS
    note = f"{left_out} more are in the agent metrics file." if left_out > 0 else None
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows))
    return together(_scrolling(table), tag("p", note, class_="quiet") if note else None)


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


def _group(line: GroupSummary, most_k: int, *, binary: bool) -> Markup:
    scores = line.scores
    head = (
        tag("th", line.name, scope="row"),
        tag("td", f"{line.tasks:,}", class_="n"),
        tag("td", percent(line.coverage), class_="n"),
    )
    if scores is None:
        return tag("tr", *head, tag("td", "no scored rollout", colspan=5, class_="quiet"))
    passed = {at.k: passed_text(at.value, binary=binary) for at in scores.pass_at}
    shares = (scores.never_solved, scores.sometimes_solved, scores.always_solved)
    names = ("never", "sometimes", "always")
    parts = [
        (name, share, f"{name} solved: {percent(share)}")
        for name, share in zip(names, shares, strict=True)
    ]
    tokens = scores.mean_output_tokens
    return tag(
        "tr",
        *head,
        tag(
            "td",
            number_of(scores.mean_reward),
            tag("small", _ends(scores.mean_reward)),
            class_="n",
        ),
        tag("td", passed.get(1, "-"), class_="n"),
        tag("td", passed.get(most_k, "-"), class_="n") if most_k > 1 else None,
        tag("td", share_bar(parts, label=", ".join(tip for _, _, tip in parts))),
        tag("td", "-" if tokens is None else number(tokens), class_="n"),
    )


def _passes(scores: GroupScores, *, binary: bool) -> Iterator[Markup]:
    first, last = scores.pass_at[0], scores.pass_at[-1]
    yield _figure(f"pass@{first.k}", passed_text(first.value, binary=binary), "one rollout")
    if last.k != first.k:
        note = f"best of {last.k}"
        yield _figure(f"pass@{last.k}", passed_text(last.value, binary=binary), note)


def _figure(name: str, value: str, note: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value, tag("small", note)))


def _ends(estimate: Estimate) -> str:
    """Format both ends of an interval. They may lie at different distances from the mean."""
    return "" if estimate.low is None else f"{estimate.low:.3f} to {estimate.high:.3f}"


def _interval(estimate: Estimate) -> str:
    return f"{_ends(estimate)} (95 %)" if estimate.low is not None else "of one task"


def _dropped(count: int) -> str:
    return f"{count:,} more without a score" if count else "all with a score"


def _findings(frame: RunFrame, summary: RunSummary) -> Iterator[tuple[str, str]]:
    scores = scores_of(summary)
    yield from _teaching(frame.rollouts)
    yield from _headroom(
        pass_curve(frame.rollouts, scores), binary=is_binary(frame.rollouts.reward)
    )
    yield from coverage(summary.total, frame.unscored)


def _teaching(rollouts: Rollouts) -> Iterator[tuple[str, str]]:
    if int(rollouts.per_task.max()) == 1:
        yield (
            "One rollout per task.",
            "Only repeated rollouts show whether a task teaches: use --repeats 4.",
        )
        return
    total = len(rollouts.tasks)
    varied = int(np.sum(describe(rollouts.reward, rollouts.starts).std > 0))
    yield (
        f"In {varied:,} of {amount(total, 'task')} the rollouts differ in reward.",
        (
            "Group-relative training learns from such tasks"
            + (", and nothing from the others." if varied < total else ".")
        ),
    )
    if not solved_by_task(rollouts).any():
        yield (
            "No reward reaches 1,",
            "so no task counts as solved. Read mean, spread and best of k instead.",
        )


def _headroom(points: Sequence[CurvePoint], *, binary: bool) -> Iterator[tuple[str, str]]:
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
        yield (
            f"The best of {point.k} is {above} above a single rollout ({ends}):",
            "the model often can, but not reliably. That is room for training.",
        )
    elif gain.high < WORTH_TRYING_AGAIN:
        yield (
            f"The best of {point.k} is only {above} above a single rollout ({ends}):",
            "trying again adds little. Harder or easier tasks would tell more than more rollouts.",
        )


def coverage(total: GroupSummary, unscored: Unscored) -> Iterator[tuple[str, str]]:
    """Yield how many rollouts have no score, and what helps."""
    missing = total.requested - total.scored
    if missing:
        yield (
            f"{amount(missing, 'requested rollout')} of {total.requested:,} have no score.",
            (
                "They count in no number here but coverage; a failure is not a zero. "
                f"What helps: {unscored.what_helps()}."
            ),
        )


def _scrolling(table: Markup) -> Markup:
    return tag("div", table, class_="scrolling", tabindex=0, role="region", aria_label="Table")
