"""Builds each figure of the report: a chart, a sentence on what it shows and what to do, and a
table of its numbers.
"""

from collections.abc import Iterator, Sequence

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.charts import (
    bars_of,
    column_chart,
    curve_chart,
    length_chart,
    rate_columns,
)
from palestra.analysis.report.facts import (
    Bar,
    CurvePoint,
    Lengths,
    Spread,
    counts_solved,
    has_enough,
    is_binary,
    solved_counts,
)
from palestra.analysis.report.markup import ABSENT, Child, Markup, amount, percent, tag, together
from palestra.analysis.report.statements import ReportValues
from palestra.analysis.report.tasks import FEW_ROLLOUTS
from palestra.metrics import Rollouts, is_solved

NOTABLE_CORRELATION = 0.2
"""From this correlation on, the report states that length and reward are related."""


def figures(frame: RunFrame, values: ReportValues) -> list[Markup]:
    """Return the figures in reading order. A figure without data has a sentence in place of the
    chart.
    """
    binary = values.binary
    return [
        _pass_rates(frame, values.pass_rates),
        _curve(values.curve, binary=binary),
        _rewards(frame, values.rewards, binary=binary),
        _lengths(values.lengths, binary=binary),
    ]


def figure(name: str, title: str, reading: Child, chart: Markup | None, numbers: Child) -> Markup:
    """Return one figure as HTML; without a chart, only its title and sentence."""
    return tag(
        "figure",
        tag("figcaption", tag("h3", title), tag("p", reading, class_="reading")),
        chart,
        numbers,
        class_="figure",
        id=f"figure-{name}",
    )


def numbers_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Return the numbers of a chart as a collapsed table."""
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    body = (
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    )
    table = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("details", tag("summary", "Numbers"), table, class_="numbers")


def _pass_rates(frame: RunFrame, bars: Sequence[Bar]) -> Markup:
    rollouts = frame.rollouts
    total = len(rollouts.tasks)
    rows = [(bar.label, f"{bar.count:,}", percent(bar.count / total)) for bar in bars]
    return figure(
        "pass-rate",
        "Pass rate of tasks",
        _rate_reading(rollouts),
        column_chart(
            rate_columns(bars, total), label="Tasks by pass rate", x_title=_of_what(rollouts)
        ),
        numbers_table(("Pass rate", "Tasks", "Share"), rows),
    )


def _rate_reading(rollouts: Rollouts) -> str:
    fewest, largest = int(rollouts.per_task.min()), int(rollouts.per_task.max())
    if largest == 1:
        return "With one rollout per task, each is solved or not. Choose a bar to list its tasks."
    never, sometimes, always = solved_counts(rollouts)
    if is_binary(rollouts.reward):
        reading = (
            f"The two ends, never ({amount(never, 'task')}) and always ({amount(always, 'task')}), "
            f"teach a group-relative method nothing; the {amount(sometimes, 'task')} between do, "
            "most of all those in the middle."
        )
    else:
        reading = (
            "A rollout counts as solved from a reward of 1 on. Below that rewards still differ: "
            "see the best of k, and the table by standard deviation."
        )
    few = "" if fewest >= FEW_ROLLOUTS else " Rates of few rollouts are coarse: collect more."
    uneven = (
        f" Tasks have {fewest} to {largest} scored rollouts, so bars are rates."
        if fewest < largest
        else ""
    )
    return f"{reading} Choose a bar to list its tasks.{uneven}{few}"


def _of_what(rollouts: Rollouts) -> str:
    return (
        f"rollouts solved, of {int(rollouts.per_task.max())}"
        if counts_solved(rollouts.per_task)
        else "pass rate up to, percent"
    )


def _curve(points: Sequence[CurvePoint], *, binary: bool) -> Markup:
    if len(points) < 2:
        reading_text = (
            "Every task has a single rollout, so there is no curve: collect at least four per task "
            "(num_repeats=4) to see how much repeated attempts are worth."
        )
        return figure("pass-at-k", "Best of k", reading_text, None, None)
    first = points[0]
    last = [point for point in points if point.tasks == first.tasks][-1]
    reading = together(
        f"The best of {last.k} rollouts reaches {_value(last.best, binary=binary)}, one alone "
        f"{_value(first.best, binary=binary)}. ",
        "That gap is what training, or choosing among answers, can win. "
        if binary and last.gain is not None and last.gain.low is not None and last.gain.low > 0
        else None,
        f"All {last.k} are right with probability {percent(last.worst)} (pass^k). "
        if binary
        else "With rewards that are not just 0 and 1 this is the expected maximum of k. ",
        f"Whiskers: 95 %.{_fewer(points)}",
    )
    heads = ("k", "pass@k" if binary else "best of k", "95 %", *(["pass^k"] * binary), "Tasks")
    rows = [
        (
            str(point.k),
            _value(point.best, binary=binary),
            _interval(point.best, binary=binary),
            *([percent(point.worst)] * binary),
            f"{point.tasks:,}",
        )
        for point in points
    ]
    chart = curve_chart(points, label="Best reward of k rollouts against k", binary=binary)
    title = "pass@k and pass^k" if binary else "Best of k"
    return figure("pass-at-k", title, reading, chart, numbers_table(heads, rows))


def _fewer(points: Sequence[CurvePoint]) -> str:
    first, last = points[0].tasks, points[-1].tasks
    if first == last:
        return ""
    return f" Only {last:,} of {amount(first, 'task')} have {points[-1].k} rollouts."


def _rewards(frame: RunFrame, bars: Sequence[Bar], *, binary: bool) -> Markup:
    rewards = frame.rollouts.reward
    top = max(bars, key=lambda bar: bar.count)
    if len(bars) == 1:
        reading = f"Every reward is {top.label}."
        if has_enough(frame.rollouts):
            reading += (
                " Nothing can be learned from that: look at a transcript and at the verifier "
                "before collecting more."
            )
    elif binary:
        reading = "Rewards are 0 or 1, so everything here follows from how often each task is 1."
    else:
        solved = percent(float(is_solved(rewards).mean()))
        most_frequent = [bar.label for bar in bars if bar.count == top.count]
        often = f", most often {top.label}" if len(most_frequent) == 1 else ""
        reading = (
            f"From {rewards.min():.4g} to {rewards.max():.4g}{often}. "
            f"{solved} of rollouts reach 1, which is what counts as solved here."
        )
    total = len(rewards)
    rows = [(bar.label, f"{bar.count:,}", percent(bar.count / total)) for bar in bars]
    return figure(
        "rewards",
        "Rewards of rollouts",
        reading,
        column_chart(
            bars_of(bars, "rollout", total, "plain"),
            label="Rollouts by reward",
            x_title="reward",
        ),
        numbers_table(("Reward", "Rollouts", "Share"), rows),
    )


def _lengths(lengths: Lengths | None, *, binary: bool) -> Markup:
    if lengths is None:
        reading = (
            "The rollouts do not say how many tokens they used (response.usage.output_tokens)."
        )
        return figure("length", "Reward against length", reading, None, None)
    rows = [
        (
            f"{length_bin.low:,} to {length_bin.high:,}",
            f"{length_bin.rollouts:,}",
            _value(length_bin.reward, binary=binary),
            _interval(length_bin.reward, binary=binary),
        )
        for length_bin in lengths.bins
    ]
    return figure(
        "length",
        "Reward against length",
        together(*_length_reading(lengths)),
        length_chart(lengths, label="Mean reward by output tokens", binary=binary),
        numbers_table(("Output tokens", "Rollouts", "Mean reward", "95 %"), rows),
    )


def _length_reading(lengths: Lengths) -> Iterator[str]:
    r = lengths.median_correlation
    if r is None:
        yield "Within no task do both reward and length vary. "
    elif lengths.carries_correlation:
        r_text = f"r\u00a0=\u00a0{round(r, 2) or 0:.2f}".replace("-", "\N{MINUS SIGN}")
        yield f"Within a task, reward and length correlate by {r_text} (median of "
        yield f"{amount(lengths.tasks_correlated, 'task')}). "
        if abs(r) < NOTABLE_CORRELATION:
            yield "Length hardly matters. "
        elif r < 0:
            yield "Longer answers fail more: look for loops and for answers cut by a token limit. "
        else:
            yield "Longer answers win more: a tighter token limit would cost reward. "
    if len(lengths.bins) > 1:
        yield "Between tasks a falling line mostly says that harder tasks take longer. "
    yield "Grey bars: how many rollouts are of that length."


def _value(spread: Spread, *, binary: bool) -> str:
    return percent(spread.mean) if binary else f"{spread.mean:.3f}"


def _interval(spread: Spread, *, binary: bool) -> str:
    if spread.low is None or spread.high is None:
        return ABSENT
    if binary:
        return f"{100 * spread.low:.1f} to {percent(spread.high)}"
    return f"{spread.low:.3f} to {spread.high:.3f}"
