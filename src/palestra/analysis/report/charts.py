"""Draws charts as SVG of flexible width: horizontal lengths are percentages, vertical lengths are
pixels.

So text keeps its size at every width, and charts need no script. Colours are CSS classes; the style
sheet defines them for light mode, dark mode and print.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10

from palestra.analysis.report.facts import Bar, CurvePoint, Lengths, Spread
from palestra.analysis.report.markup import Markup, amount, percent, tag, together

HEIGHT = 190
TOP, BOTTOM = 14, 26
PADDING = 4.0
"""The free space at both ends of a curve's x axis, in percent."""
LEAST_PIXELS = 1.5
"""The least height of a bar, so that one rollout among a million is visible."""
MOST_X_LABELS = 11
NARROW_X_LABELS = 6
WIDEST_BAR = 18.0
"""The largest width of a bar, in percent, so that a chart of two bars has no huge blocks."""


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A bar of a chart: its label, count, tooltip, colour class and link."""

    tick: str
    count: int
    tip: str
    tone: str
    link: str | None = None
    """The pass-rate range `low,high` that the page's script filters tasks by when the user chooses
    the bar."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A vertical scale from values to pixels: `low` is at `bottom`, `high` at `top`."""

    low: float
    high: float
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def column_chart(columns: Sequence[ChartBar], *, label: str, x_title: str) -> Markup:
    """Draw counts as vertical bars. The pointer area of each bar has the full height of the chart."""
    ticks = nice_ticks(max(column.count for column in columns))
    scale = Scale(0, ticks[-1])
    width = 100 / len(columns)
    bars = [_column(column, at * width, width, scale) for at, column in enumerate(columns)]
    labels = _labels([column.tick for column in columns], width)
    return _svg(
        together(_grid(scale, [(tick, f"{tick:,.0f}") for tick in ticks]), *bars, labels),
        label=label,
        x_title=x_title,
        linked=any(column.link for column in columns),
    )


def curve_chart(points: Sequence[CurvePoint], *, label: str, binary: bool) -> Markup:
    """Draw the best of k rollouts against k, with intervals; for 0/1 rewards also pass^k, the
    probability that all k are solved.
    """
    xs = [PADDING + (100 - 2 * PADDING) * at / (len(points) - 1) for at in range(len(points))]
    best = [point.best for point in points]
    scale = _curve_scale(best, binary=binary)
    ticks = [(tick, _tick(tick, binary=binary)) for tick in span_ticks(scale.low, scale.high)]
    together_line = [point.worst for point in points]
    parts = [_grid(scale, ticks)]
    if binary:
        parts.append(_line(xs, together_line, scale, "line second"))
        parts += [
            _dot(x, scale.y(value), "dot second", f"pass^{point.k}: {value:.1%}")
            for x, value, point in zip(xs, together_line, points, strict=True)
        ]
        parts.append(_name_at(xs[-1], scale.y(together_line[-1]) - 10, "pass^k", "second"))
    parts.append(_line(xs, [spread.mean for spread in best], scale, "line first"))
    parts += [
        _point(x, point.best, scale, f"pass@{point.k}: {_spread_text(point.best, binary=binary)}")
        for x, point in zip(xs, points, strict=True)
    ]
    top = best[-1].mean if best[-1].high is None else min(best[-1].high, scale.high)
    name = "pass@k" if binary else "best of k"
    parts.append(_name_at(xs[-1], scale.y(top) - 9, name, "first"))
    names = [
        _text(x, HEIGHT - BOTTOM + 16, str(point.k), "tick-x")
        for x, point in zip(xs, points, strict=True)
    ]
    return _svg(together(*parts, *names), label=label, x_title="rollouts per task, k")


def length_chart(lengths: Lengths, *, label: str, binary: bool) -> Markup:
    """Draw the mean reward by rollout length, and below it the number of rollouts of each length."""
    bins = lengths.bins
    width = 100 / len(bins)
    xs = [(at + 0.5) * width for at in range(len(bins))]
    scale = _curve_scale([length_bin.reward for length_bin in bins], binary=binary)
    counts = Scale(
        0, max(length_bin.rollouts for length_bin in bins), scale.bottom + 18, scale.bottom + 58
    )
    ticks = [(tick, _tick(tick, binary=binary)) for tick in span_ticks(scale.low, scale.high)]
    parts = [
        _grid(scale, ticks),
        _line(xs, [length_bin.reward.mean for length_bin in bins], scale, "line first"),
    ]
    for x, length_bin in zip(xs, bins, strict=True):
        tip_head = f"{_span(length_bin.low, length_bin.high)} tokens: {_spread_text(length_bin.reward, binary=binary)}"
        tip = f"{tip_head}, {amount(length_bin.rollouts, 'rollout')}"
        top = min(counts.y(length_bin.rollouts), counts.bottom - LEAST_PIXELS)
        bar = _rect(x - width * 0.4, top, width * 0.8, counts.bottom - top, "bar quiet")
        parts += [_mark(bar, tip), _point(x, length_bin.reward, scale, tip)]
    labels = _labels([_compact(length_bin.low) for length_bin in bins], width, y=counts.bottom + 16)
    return _svg(
        together(*parts, labels),
        label=label,
        x_title="output tokens, from",
        height=counts.bottom + BOTTOM,
    )


def share_bar(parts: Sequence[tuple[str, float, str]], *, label: str) -> Markup:
    """Draw shares of a whole, each (tone, share, tip), as one horizontal bar."""
    drawn, x = [], 0.0
    for tone, share, tip in parts:
        if share:
            drawn.append(_mark(_rect(100 * x, 0, 100 * share, "100%", f"bar {tone}"), tip))
        x += share
    return tag("svg", *drawn, class_="share", role="img", aria_label=label)


def meter(share: float, tone: str) -> Markup:
    """Draw a share as a thin bar for a table cell. It is hidden from screen readers, since the cell
    also has the number.
    """
    return tag(
        "svg", _rect(0, 0, 100 * share, "100%", f"bar {tone}"), class_="meter", aria_hidden="true"
    )


def bars_of(bars: Sequence[Bar], unit: str, total: int, tone: str) -> list[ChartBar]:
    """Return the bars with the colour class `tone`. `unit`: what they count, in the singular."""
    return [ChartBar(bar.tick, bar.count, _counted(bar, unit, total), tone) for bar in bars]


def rate_columns(bars: Sequence[Bar], total: int) -> list[ChartBar]:
    """Return bars of pass rates. Each links to its tasks and has the colour of never, sometimes or
    always solved.
    """
    return [
        ChartBar(
            bar.tick,
            bar.count,
            _counted(bar, "task", total),
            "never" if bar.high == 0 else "always" if bar.low == 1 else "sometimes",
            f"{bar.low!r},{bar.high!r}" if bar.count else None,
        )
        for bar in bars
    ]


def nice_ticks(largest: float) -> list[float]:
    """Return about five evenly spaced round numbers, from 0 to at least `largest`."""
    step = _nice_step(largest / 4)
    count = -int(-largest // step) or 1
    return [step * number for number in range(count + 1)]


def span_ticks(low: float, high: float) -> list[float]:
    """Return the evenly spaced round numbers between `low` and `high`."""
    step = _nice_step((high - low) / 4, is_whole=False)
    first = -int(-low // step)
    last = int((high + step * 1e-9) // step)
    return [round(step * number, 10) for number in range(first, last + 1)]


def _nice_step(step: float, *, is_whole: bool = True) -> float:
    if is_whole and step <= 1:
        return 1
    power = 10.0 ** floor(log10(step))
    # a step of 2.5 would be labelled 2, 5, 8
    factors = (1, 2, 3, 5, 10) if is_whole and power == 1 else (1, 2, 2.5, 5, 10)
    near = min(factors, key=lambda nice: abs(log10(power * nice / step)))
    return power * near


def _curve_scale(spreads: Sequence[Spread], *, binary: bool) -> Scale:
    if binary:
        return Scale(0, 1)
    lows = [spread.mean if spread.low is None else spread.low for spread in spreads]
    highs = [spread.mean if spread.high is None else spread.high for spread in spreads]
    low, high = min(*lows, *highs), max(*highs, *lows)
    room = (high - low) * 0.08 or 0.5
    return Scale(low - room, high + room)


def _column(column: ChartBar, x: float, width: float, scale: Scale) -> Markup:
    top = scale.y(column.count)
    height = max(scale.bottom - top, LEAST_PIXELS) if column.count else 0
    bar = min(width * 0.8, WIDEST_BAR)
    inside = together(
        _rect(x, scale.top, width, scale.bottom - scale.top, "hit"),
        _rect(x + (width - bar) / 2, scale.bottom - height, bar, height, f"bar {column.tone}"),
    )
    if column.link is None:
        return _mark(inside, column.tip)
    return tag(
        "a",
        tag("title", column.tip),
        inside,
        class_="mark",
        href="#tasks",
        data_rates=column.link,
        aria_label=f"{column.tip}: show them",
    )


def _grid(scale: Scale, ticks: Sequence[tuple[float, str]]) -> Markup:
    parts = []
    for value, text in ticks:
        y = scale.y(value)
        parts.append(_segment(0, y, 100, y, "grid" if value else "base"))
        parts.append(
            tag("text", text, x=0, y=_px(y), dx=-8, dy="0.32em", class_="tick-y", text_anchor="end")
        )
    return together(*parts)


def _labels(texts: Sequence[str], width: float, y: float = HEIGHT - BOTTOM + 16) -> Markup:
    """Draw the labels below the bars; with many bars, only every second, third, … and the last one.

    If more than `NARROW_X_LABELS` remain, every other label is hidden on narrow screens (class
    `spare`).
    """
    step = -(-len(texts) // MOST_X_LABELS)
    last = len(texts) - 1
    label_positions = [at for at in range(0, last, step) if last - at > step / 2] + [last]
    many = len(label_positions) > NARROW_X_LABELS
    return together(
        *(
            _text(
                (at + 0.5) * width,
                y,
                texts[at],
                "tick-x spare" if many and number % 2 and at != last else "tick-x",
            )
            for number, at in enumerate(label_positions)
        )
    )


def _svg(
    inside: Markup,
    *,
    label: str,
    x_title: str,
    height: float = HEIGHT,
    linked: bool = False,
) -> Markup:
    drawn = tag(
        "svg",
        inside,
        class_="chart",
        width="100%",
        height=_px(height),
        role="group" if linked else "img",
        aria_label=label,
    )
    return tag("div", drawn, tag("p", x_title, class_="x-title"), class_="plot")


def _line(xs: Sequence[float], values: Sequence[float], scale: Scale, class_: str) -> Markup:
    points = [(x, scale.y(value)) for x, value in zip(xs, values, strict=True)]
    return together(*(_segment(*start, *end, class_) for start, end in pairwise(points)))


def _point(x: float, spread: Spread, scale: Scale, tip: str) -> Markup:
    """Draw a mean as a dot and its interval as a whisker."""
    parts = []
    if spread.low is not None and spread.high is not None:
        ends = (min(max(end, scale.low), scale.high) for end in (spread.low, spread.high))
        parts.append(_segment(x, scale.y(next(ends)), x, scale.y(next(ends)), "whisker"))
    y = scale.y(spread.mean)
    parts.append(tag("circle", cx=_pct(x), cy=_px(y), r=4, class_="dot first"))
    parts.append(tag("circle", cx=_pct(x), cy=_px(y), r=14, class_="hit"))
    return _mark(together(*parts), tip)


def _dot(x: float, y: float, class_: str, tip: str) -> Markup:
    return _mark(tag("circle", cx=_pct(x), cy=_px(y), r=3, class_=class_), tip)


def _mark(inside: Markup, tip: str) -> Markup:
    return tag("g", tag("title", tip), inside, class_="mark")


def _name_at(x: float, y: float, text: str, tone: str) -> Markup:
    return tag("text", text, x=_pct(x), y=_px(y), class_=f"series {tone}", text_anchor="end")


def _text(x: float, y: float, text: str, class_: str) -> Markup:
    return tag("text", text, x=_pct(x), y=_px(y), class_=class_, text_anchor="middle")


def _rect(x: float, y: float, width: float, height: float | str, class_: str) -> Markup:
    tall = height if isinstance(height, str) else _px(height)
    return tag("rect", x=_pct(x), y=_px(y), width=_pct(width), height=tall, class_=class_)


def _segment(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=_pct(x1), y1=_px(y1), x2=_pct(x2), y2=_px(y2), class_=class_)


def _counted(bar: Bar, unit: str, total: int) -> str:
    return f"{bar.label}: {amount(bar.count, unit)} ({percent(bar.count / total)})"


def _spread_text(spread: Spread, *, binary: bool) -> str:
    def value_text(value: float) -> str:
        return percent(value) if binary else f"{value:.3f}"

    if spread.low is None or spread.high is None:
        return value_text(spread.mean)
    return (
        f"{value_text(spread.mean)} (95 %: {value_text(spread.low)} to {value_text(spread.high)})"
    )


def _tick(value: float, *, binary: bool) -> str:
    return f"{100 * value:.0f} %" if binary else f"{value:.6g}"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _compact(value: int) -> str:
    if value >= 1_000_000:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1000:.3g}k" if value >= 1000 else str(value)


def _pct(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
