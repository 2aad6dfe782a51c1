"""Draws the top of the report: key figures, findings, and how the requests ended."""

from collections.abc import Iterator

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.charts import meter, share_bar
from palestra.analysis.report.facts import solved_counts
from palestra.analysis.report.markup import (
    ABSENT,
    Child,
    Markup,
    amount,
    number,
    percent,
    tag,
    together,
    visible_line,
)
from palestra.analysis.report.statements import (
    Component,
    Remark,
    ReportValues,
    ends_text,
    number_of,
    over_tasks,
    passed_text,
)
from palestra.analysis.summary import GroupSummary, RunSummary

MOST_GROUPS = 60


def key_figures(values: ReportValues) -> Markup:
    """Return the row of key figures: mean reward, pass rates, coverage, tasks and tokens."""
    figures = (
        tag("div", tag("dt", f.name), tag("dd", f.value, tag("small", f.note)))
        for f in values.key_figures
    )
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


def findings(values: ReportValues) -> Markup:
    """Return the findings and recommended next steps, one or two sentences each, followed by the
    notices.
    """
    items = [tag("li", tag("b", f"{r.head} "), r.text, *_query(r)) for r in values.remarks]
    notices = [tag("li", tag("b", "Note. "), text) for text in values.notices]
    return tag("ul", *items, *notices, class_="findings")


def _query(remark: Remark) -> Iterator[Child]:
    """Yield how the rollouts of a remark are listed."""
    if remark.query:
        yield " In the viewer: "
        yield tag("code", remark.query)
        yield "."


def outcomes(values: ReportValues, requested: int) -> Markup:
    """Return a table of how the requested rollouts ended."""
    rows = (
        tag(
            "tr",
            tag("th", ending.name, scope="row"),
            tag(
                "td",
                meter(ending.count / requested, "plain" if ending.name == "scored" else "never"),
                class_="wide",
            ),
            tag("td", f"{ending.count:,}", class_="n"),
            tag("td", percent(ending.count / requested), class_="n"),
            tag("td", ending.meaning, class_="quiet"),
        )
        for ending in values.endings
    )
    heads = (("Outcome", None), ("", "wide"), ("Rollouts", "n"), ("Share", "n"), ("", None))
    head = (tag("th", text, scope="col", class_=class_) for text, class_ in heads)
    return _scrolling(tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)))


def components(values: ReportValues) -> Markup | None:
    """Return a table with one line per component of the reward; None when it has none."""
    if not values.components:
        return None
    heads = (("Component", None), ("Rollouts", "n"), ("Mean", "n"), ("Least", "n"), ("Most", "n"))
    head = (tag("th", text, scope="col", class_=class_) for text, class_ in heads)
    rows = map(_component, values.components)
    return _scrolling(tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)))


def _component(component: Component) -> Markup:
    mean = component.mean
    interval = "" if mean.low is None else f"{mean.low:.3f} to {mean.high:.3f}"
    return tag(
        "tr",
        tag("th", visible_line(component.name, 60), scope="row"),
        tag("td", f"{component.rollouts:,}", class_="n"),
        tag("td", f"{mean.mean:.3f}", tag("small", interval), class_="n"),
        tag("td", f"{component.least:.3g}", class_="n"),
        tag("td", f"{component.most:.3g}", class_="n"),
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


def _group(line: GroupSummary, most_k: int, *, binary: bool) -> Markup:
    scores = line.scores
    head = (
        tag("th", line.name, scope="row"),
        tag("td", f"{line.tasks:,}", class_="n"),
        tag("td", percent(line.coverage), class_="n"),
    )
    if scores is None:
        return tag("tr", *head, tag("td", "no scored rollout", colspan=5, class_="quiet"))
    passed = {
        at.k: together(
            passed_text(at.value, binary=binary),
            tag("small", task_note) if (task_note := over_tasks(at.tasks, scores.tasks)) else None,
        )
        for at in scores.pass_at
    }
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
            tag("small", ends_text(scores.mean_reward)),
            class_="n",
        ),
        tag("td", passed.get(1, ABSENT), class_="n"),
        tag("td", passed.get(most_k, ABSENT), class_="n") if most_k > 1 else None,
        tag("td", share_bar(parts, label=", ".join(tip for _, _, tip in parts))),
        tag("td", ABSENT if tokens is None else number(tokens), class_="n"),
    )


def _scrolling(table: Markup) -> Markup:
    return tag("div", table, class_="scrolling", tabindex=0, role="region", aria_label="Table")
