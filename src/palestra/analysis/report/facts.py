"""The numbers that the report draws, taken from a frame. Pure."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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

REWARD_BINS = 20
MOST_SINGLE_REWARDS = 12
"""Up to so many different rewards each have a bar of their own."""
MOST_SINGLE_RATES = 32
"""Up to so many rollouts per task, every possible pass rate has a bar of its own."""
RATE_BINS = 10
LENGTH_BINS = 10
WIDE_RANGE = 10
"""From this ratio of the longest to the shortest rollout on, lengths are binned in logarithms."""

_TIME_FIELD = re.compile(r"elapsed|latency|duration|wall_?time|run_?time")


@dataclass(frozen=True, slots=True)
class Bar:
    """Some of the rollouts or tasks: those whose value is between `low` and `high`."""

    label: str
    tick: str
    """The label as short as an axis wants it."""
    count: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean with its 95 % interval; no interval where a single task stands behind it."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What k rollouts of a task are worth: the best of them, and the worst."""

    k: int
    best: Spread
    worst: float
    """pass^k: for 0/1 rewards the probability that all k are solved."""
    tasks: int
    """Tasks that have k rollouts; both means are over these."""


@dataclass(frozen=True, slots=True)
class LengthBin:
    """Rollouts of similar length, in output tokens."""

    low: int
    high: int
    rollouts: int
    reward: Spread


@dataclass(frozen=True, slots=True)
class Lengths:
    bins: Sequence[LengthBin]
    logarithmic: bool
    median_correlation: float | None
    """Median over tasks of Pearson's r between reward and length; None where no task has one."""
    tasks_correlated: int


def is_binary(rewards: FloatArray) -> bool:
    """Whether every reward is 0 or 1."""
    return bool(np.isin(rewards, (0.0, 1.0)).all())


def time_field(rollouts: Rollouts) -> str | None:
    """The field that says how long a rollout took, if rows have one."""
    return next(
        (name for name in sorted(rollouts.columns.values) if _TIME_FIELD.search(name)), None
    )


def reward_bars(rewards: FloatArray) -> list[Bar]:
    """How often each reward occurs; in equal bins when there are many different ones."""
    values, counts = np.unique(rewards, return_counts=True)
    if len(values) <= MOST_SINGLE_REWARDS:
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        return [Bar(f"{v:.4g}", f"{v:.4g}", count, v, v) for v, count in pairs]
    edges = np.linspace(float(values[0]), float(values[-1]), REWARD_BINS + 1)
    filled = np.histogram(rewards, edges)[0].tolist()
    spans = zip(edges[:-1].tolist(), edges[1:].tolist(), filled, strict=True)
    return [
        Bar(f"{low:.3g} to {high:.3g}", f"{low:.2g}", count, low, high)
        for low, high, count in spans
    ]


def pass_rate_bars(solved: IntArray, trials: IntArray) -> list[Bar]:
    """Tasks by pass rate, by number solved or, with many rollouts, in tenths.

    Tasks never solved and tasks always solved are bars of their own in both. A task with fewer
    rollouts than the others counts at the nearest number solved: bins of equal width would hold
    now one, now two of the possible rates, and show teeth that are not there.
    """
    rates, most_rollouts = solved / trials, int(trials.max())
    if most_rollouts <= MOST_SINGLE_RATES:
        inner = np.clip(np.rint(rates * most_rollouts), 1, most_rollouts - 1)
        about = "" if bool((trials == most_rollouts).all()) else "about "
        ticks = [str(solved) for solved in range(most_rollouts + 1)]
        labels = [
            f"{about if 0 < at < most_rollouts else ''}{at}/{most_rollouts}"
            for at in range(most_rollouts + 1)
        ]
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
    """The scores' pass@k and pass^k, with the intervals of means over tasks."""
    sizes = np.unique(rollouts.per_task).tolist()
    rewards = {size: _ascending(rollouts, size) for size in sizes}
    points = []
    for at, hat in zip(scores.pass_at, scores.pass_hat, strict=True):
        matrices = [matrix for size, matrix in rewards.items() if size >= at.k]
        best = np.concatenate([expected_max_of_sorted(matrix, at.k) for matrix in matrices])
        points.append(CurvePoint(at.k, spread(best), hat.value, at.tasks))
    return points


def lengths(rollouts: Rollouts) -> Lengths | None:
    """Mean reward by length of the answer; None where rows do not say how long they are."""
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
    )


def spread(values: FloatArray, starts: IntArray | None = None) -> Spread:
    """The mean and its interval; values of one group, if `starts` says so, count as dependent."""
    groups = np.arange(len(values) + 1) if starts is None else starts
    estimate = estimate_level(
        sum_by_group(values, groups), np.diff(groups), limits=reward_range(values)
    )
    return Spread(estimate.value, estimate.low, estimate.high)


def solved_counts(rollouts: Rollouts) -> tuple[int, int, int]:
    """Tasks solved never, sometimes, always."""
    solved = solved_by_task(rollouts)
    never, always = int(np.sum(solved == 0)), int(np.sum(solved == rollouts.per_task))
    return never, len(solved) - never - always, always


def _rate_bar(rates: FloatArray, label: str, tick: str) -> Bar:
    """Its bounds are those of the tasks in it, so that they pick out just these."""
    bounds = (float(rates.min()), float(rates.max())) if len(rates) else (math.nan, math.nan)
    return Bar(label, tick, len(rates), *bounds)


def _ascending(rollouts: Rollouts, size: int) -> FloatArray:
    """One ascending row of rewards for each task that has `size` rollouts."""
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
    """Whole numbers of tokens; a bin is from one up to, not including, the next."""
    low, high = max(float(np.nanmin(column)), 0.0), float(np.nanmax(column))
    if logarithmic:
        inner = np.geomspace(max(low, 1.0), high, LENGTH_BINS + 1)[1:-1]
    else:
        inner = np.linspace(low, high, LENGTH_BINS + 1)[1:-1]
    steps = {_rounded(edge) for edge in inner.tolist()}
    return [int(low), *sorted(edge for edge in steps if low < edge <= high), int(high) + 1]


def _rounded(edge: float) -> int:
    """To two digits, which is what people read off an axis."""
    return int(float(f"{edge:.2g}"))


def _starts_of(rollouts: Rollouts, chosen: BoolArray) -> IntArray:
    return starts_of_sorted(group_of_rows(rollouts.starts)[chosen])
