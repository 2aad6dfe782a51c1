"""Computes from a frame the numbers that the report draws. Does no I/O."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from palestra.analysis.intervals import estimate_level
from palestra.analysis.summary import GroupScores
from palestra.analysis.task_rows import LENGTH_FIELD, solved_by_task
from palestra.analysis.views import reward_range
from palestra.metrics import (
    BoolArray,
    FloatArray,
    IntArray,
    Rollouts,
    correlation_by_group,
    expected_max_of_sorted,
    group_of_rows,
    starts_of_sorted,
    sum_by_group,
)

ENOUGH_ROLLOUTS = 30
ENOUGH_TASKS = 10
"""With fewer rollouts or tasks, the report shows numbers and concludes nothing from them."""
REWARD_BINS = 20
MOST_SINGLE_REWARDS = 12
"""With at most this many different rewards, each has its own bar."""
MOST_SINGLE_RATES = 32
"""With at most this many rollouts per task, the same of each, each possible pass rate has its own
bar."""
RATE_BINS = 10
LENGTH_BINS = 10
WIDE_RANGE = 10
"""Above this ratio of the longest to the shortest rollout, length bins are logarithmic."""

_TIME_FIELD = re.compile(r"elapsed|latency|duration|wall_?time|run_?time")


@dataclass(frozen=True, slots=True)
class Bar:
    """The number of rollouts or tasks whose value lies between `low` and `high`."""

    label: str
    tick: str
    """The short label for the axis."""
    count: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean with its 95 % interval; `low` and `high` are None for a single task."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The scores of k rollouts of a task: their best reward, and pass^k."""

    k: int
    best: Spread
    worst: float
    """pass^k. For 0/1 rewards: the probability that all k rollouts are solved."""
    tasks: int
    """The number of tasks with at least k rollouts; `best` and `worst` are means over these tasks.
    """
    gain: Spread | None = None
    """How much better than a single rollout the best of k is, over these tasks; None for k = 1."""


@dataclass(frozen=True, slots=True)
class LengthBin:
    """The rollouts of similar length: `low` to `high` output tokens."""

    low: int
    high: int
    rollouts: int
    reward: Spread


@dataclass(frozen=True, slots=True)
class Lengths:
    bins: Sequence[LengthBin]
    logarithmic: bool
    median_correlation: float | None
    """The median over tasks of Pearson's r between reward and length; None when r is undefined for
    every task."""
    tasks_correlated: int
    rollouts_correlated: int
    """The number of rollouts of these tasks."""

    @property
    def carries_correlation(self) -> bool:
        """Whether there are enough rollouts and tasks for a statement about the correlation."""
        return self.rollouts_correlated >= ENOUGH_ROLLOUTS and self.tasks_correlated >= ENOUGH_TASKS


def has_enough(rollouts: Rollouts) -> bool:
    """Whether there are enough rollouts and tasks for a statement about all of them."""
    return len(rollouts) >= ENOUGH_ROLLOUTS and len(rollouts.tasks) >= ENOUGH_TASKS


def is_binary(rewards: FloatArray) -> bool:
    """Whether every reward is 0 or 1."""
    return bool(np.isin(rewards, (0.0, 1.0)).all())


def time_field(rollouts: Rollouts) -> str | None:
    """Return the name of a field with the duration of a rollout; None if there is none."""
    return next(
        (name for name in sorted(rollouts.columns.values) if _TIME_FIELD.search(name)), None
    )


def reward_bars(rewards: FloatArray) -> list[Bar]:
    """Return how often each reward occurs, rounded to four digits; in equal bins when there are more
    than `MOST_SINGLE_REWARDS` different rewards.
    """
    values, counts = np.unique(rewards, return_counts=True)
    if len(values) <= MOST_SINGLE_REWARDS:
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        by_label = ((label, [*group]) for label, group in groupby(pairs, lambda p: f"{p[0]:.4g}"))
        return [
            Bar(label, label, sum(count for _, count in group), group[0][0], group[-1][0])
            for label, group in by_label
        ]
    edges = np.linspace(float(values[0]), float(values[-1]), REWARD_BINS + 1)
    filled = np.histogram(rewards, edges)[0].tolist()
    spans = zip(edges[:-1].tolist(), edges[1:].tolist(), filled, strict=True)
    return [
        Bar(f"{low:.3g} to {high:.3g}", f"{low:.2g}", count, low, high)
        for low, high, count in spans
    ]


def counts_solved(trials: IntArray) -> bool:
    """Whether the bars of pass rates are numbers of solved rollouts, not rates: all tasks have the
    same number of scored rollouts, and at most `MOST_SINGLE_RATES`.
    """
    most_rollouts = int(trials.max())
    return most_rollouts <= MOST_SINGLE_RATES and int(trials.min()) == most_rollouts


def pass_rate_bars(solved: IntArray, trials: IntArray) -> list[Bar]:
    """Count tasks by pass rate: one bar per number of solved rollouts where `counts_solved`, else
    per tenth.

    Tasks never solved and tasks always solved have bars of their own in both cases. Where each
    number has its bar, there are no bins of equal width: they would contain now one, now two of the
    possible rates and show false peaks.
    """
    rates, most_rollouts = solved / trials, int(trials.max())
    if counts_solved(trials):
        inner = np.clip(np.rint(rates * most_rollouts), 1, most_rollouts - 1)
        ticks = [str(solved) for solved in range(most_rollouts + 1)]
        labels = [f"{tick}/{most_rollouts}" for tick in ticks]
    else:
        inner = np.ceil(rates * RATE_BINS)
        width = 100 // RATE_BINS
        lows = range(0, 100, width)
        ticks = ["0", *(f"≤{low + width}" for low in lows), "100"]
        labels = ["0 %", *(f"{low} to {low + width} %" for low in lows), "100 %"]
    bar = np.where(rates == 0, 0, np.where(rates == 1, len(labels) - 1, inner))
    numbered_names = enumerate(zip(labels, ticks, strict=True))
    return [_rate_bar(rates[bar == at], *names) for at, names in numbered_names]


def pass_curve(rollouts: Rollouts, scores: GroupScores) -> list[CurvePoint]:
    """Return pass@k and pass^k of `scores`, with intervals over tasks for pass@k."""
    sizes = np.unique(rollouts.per_task).tolist()
    rewards = {size: _ascending(rollouts, size) for size in sizes}
    points = []
    for at, hat in zip(scores.pass_at, scores.pass_hat, strict=True):
        matrices = [matrix for size, matrix in rewards.items() if size >= at.k]
        best = np.concatenate([expected_max_of_sorted(matrix, at.k) for matrix in matrices])
        single = np.concatenate([matrix.mean(axis=1) for matrix in matrices])
        gain = spread(best - single) if at.k > 1 else None
        points.append(CurvePoint(at.k, spread(best), hat.value, at.tasks, gain))
    return points


def lengths(rollouts: Rollouts) -> Lengths | None:
    """Return the mean reward by answer length; None when the rows have no token counts."""
    column = rollouts.columns.values.get(LENGTH_FIELD)
    if column is None or np.isnan(column).all():
        return None
    logarithmic = float(np.nanmax(column)) > WIDE_RANGE * max(float(np.nanmin(column)), 1.0)
    per_task = correlation_by_group(rollouts.reward, column, rollouts.starts)
    correlations = per_task[~np.isnan(per_task)]
    return Lengths(
        bins=list(_length_bins(rollouts, column, logarithmic=logarithmic)),
        logarithmic=logarithmic,
        median_correlation=float(np.median(correlations)) if len(correlations) else None,
        tasks_correlated=len(correlations),
        rollouts_correlated=int(rollouts.per_task[~np.isnan(per_task)].sum()),
    )


def spread(values: FloatArray, starts: IntArray | None = None) -> Spread:
    """Return the mean and its interval. `starts`: the groups of dependent values; None means that
    all are independent.
    """
    groups = np.arange(len(values) + 1) if starts is None else starts
    estimate = estimate_level(
        sum_by_group(values, groups), np.diff(groups), limits=reward_range(values)
    )
    return Spread(estimate.value, estimate.low, estimate.high)


def solved_counts(rollouts: Rollouts) -> tuple[int, int, int]:
    """Return the number of tasks never, sometimes and always solved."""
    solved = solved_by_task(rollouts)
    never, always = int(np.sum(solved == 0)), int(np.sum(solved == rollouts.per_task))
    return never, len(solved) - never - always, always


def _rate_bar(rates: FloatArray, label: str, tick: str) -> Bar:
    """Return a bar bounded by the least and largest rate of its tasks, so that filtering by the
    bounds selects exactly these tasks.
    """
    bounds = (float(rates.min()), float(rates.max())) if len(rates) else (math.nan, math.nan)
    return Bar(label, tick, len(rates), *bounds)


def _ascending(rollouts: Rollouts, size: int) -> FloatArray:
    """Return the rewards of the tasks with `size` rollouts: one row per task, sorted in ascending
    order.
    """
    first = rollouts.starts[:-1][rollouts.per_task == size]
    return np.sort(rollouts.reward[first[:, np.newaxis] + np.arange(size)], axis=1)


def _length_bins(
    rollouts: Rollouts, column: FloatArray, *, logarithmic: bool
) -> Iterator[LengthBin]:
    edges = _length_edges(column, logarithmic=logarithmic)
    for low, high in pairwise(edges):
        chosen = (column >= low) & (column < high)
        if chosen.any():
            rewards, starts = rollouts.reward[chosen], _starts_of(rollouts, chosen)
            yield LengthBin(low, high - 1, len(rewards), spread(rewards, starts))


def _length_edges(column: FloatArray, *, logarithmic: bool) -> list[int]:
    """Return the bin edges as whole tokens; a bin includes its lower edge and excludes its upper
    edge.
    """
    low, high = max(float(np.nanmin(column)), 0.0), float(np.nanmax(column))
    if logarithmic:
        inner = np.geomspace(max(low, 1.0), high, LENGTH_BINS + 1)[1:-1]
    else:
        inner = np.linspace(low, high, LENGTH_BINS + 1)[1:-1]
    steps = {_rounded(edge) for edge in inner.tolist()}
    return [int(low), *sorted(edge for edge in steps if low < edge <= high), int(high) + 1]


def _rounded(edge: float) -> int:
    """Round to two significant digits, which are easy to read on an axis."""
    return int(float(f"{edge:.2g}"))


def _starts_of(rollouts: Rollouts, chosen: BoolArray) -> IntArray:
    return starts_of_sorted(group_of_rows(rollouts.starts)[chosen])
