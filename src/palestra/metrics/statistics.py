"""Computes statistics of groups of rows, vectorised over the groups.

Rows are sorted by group. `starts` has the first row of each group, and the number of rows at the
end, so group `g` is `values[starts[g] : starts[g + 1]]`. Groups are never empty. NaN marks a row
without the value; such rows are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from palestra.metrics.columns import BoolArray, FloatArray, IntArray

S = TypeVar("S", bound=np.signedinteger[Any])

STATISTICS = ("mean", "max", "min", "median", "std")
HISTOGRAM_BINS = 10
SOLVED_REWARD = 1.0
"""A rollout with at least this reward counts as solved; `pass_rate` is the share of such rollouts.
"""
_ROUNDING = 1e-9
"""How far, by rounding, a reward may fall short of the limit that it reaches (0.7 + 0.2 + 0.1 is
below 1), and means of the same rewards may differ, as a part of them.
"""
LARGEST_SQUARED = 1e150
"""The largest absolute value for which sums of squares do not overflow."""


@dataclass(frozen=True, slots=True)
class Description:
    """The statistics of each group; NaN for a group without any value."""

    count: IntArray
    mean: FloatArray
    max: FloatArray
    min: FloatArray
    median: FloatArray
    std: FloatArray
    """The sample standard deviation (n - 1); 0 for a single value."""


@dataclass(frozen=True, slots=True)
class Interval:
    low: FloatArray
    high: FloatArray


def group_of_rows(starts: IntArray) -> IntArray:
    """Return the group number of each row."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def starts_of_sorted(group: IntArray) -> IntArray:
    """Return `starts` for rows with ascending group numbers, which may have gaps."""
    if not len(group):
        return np.zeros(1, dtype=np.int64)
    changes = np.flatnonzero(np.diff(group)) + 1
    return np.concatenate([[0], changes, [len(group)]]).astype(np.int64)


def distinct(values: npt.NDArray[S]) -> npt.NDArray[S]:
    """Return the values that occur, ascending. For columns of a million rows this is ten times as
    fast as `np.unique`, which hashes them before it sorts.
    """
    if not len(values):
        return values
    ordered = values if bool((values[1:] >= values[:-1]).all()) else np.sort(values)
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    return np.asarray(ordered[is_first])


def sum_by_group(values: FloatArray, starts: IntArray) -> FloatArray:
    return np.add.reduceat(values, starts[:-1])


def mean_by_group(values: FloatArray, starts: IntArray) -> FloatArray:
    return sum_by_group(values, starts) / np.diff(starts)


def difference_of_means(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return `b` - `a`; 0 where only the order of the sums, or how often the same values stand in
    them, tells the means apart.
    """
    is_rounding = np.isclose(a, b, rtol=_ROUNDING, atol=1e-15)
    return np.asarray(np.where(is_rounding, 0.0, b - a))


def is_solved(rewards: FloatArray, at: float = SOLVED_REWARD) -> BoolArray:
    """Return which rewards solve their task: those of at least `at`, but for a rounding."""
    return np.asarray(rewards >= at - _ROUNDING)


def describe(values: FloatArray, starts: IntArray) -> Description:
    """Return the mean, extremes, median and sample standard deviation of each group."""
    present = ~np.isnan(values)
    if present.all():
        return _describe_dense(values, starts)
    count = np.add.reduceat(present.astype(np.int64), starts[:-1])
    non_empty = np.flatnonzero(count)
    if not len(non_empty):
        return _scattered(None, count, non_empty)
    dense_starts = np.concatenate([[0], np.cumsum(count[non_empty])])
    return _scattered(_describe_dense(values[present], dense_starts), count, non_empty)


def wilson_interval(successes: IntArray, trials: IntArray, *, confidence: float) -> Interval:
    """Return Wilson's score interval for a proportion (Wilson 1927)."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    proportion = successes / trials
    scale = 1 + z**2 / trials
    center = (proportion + z**2 / (2 * trials)) / scale
    spread = proportion * (1 - proportion) / trials + z**2 / (4 * trials**2)
    half = z / scale * np.sqrt(spread)
    # the ends are exact where rounding would leave a trace
    low = np.where(successes == 0, 0.0, np.clip(center - half, 0, 1))
    return Interval(low, np.where(successes == trials, 1.0, np.clip(center + half, 0, 1)))


def learnability_interval(proportion: Interval) -> Interval:
    """Return the range of p(1 - p) for p in its interval. The maximum is 1/4, at p = 1/2."""
    at_low = proportion.low * (1 - proportion.low)
    at_high = proportion.high * (1 - proportion.high)
    holds_peak = (proportion.low <= 0.5) & (proportion.high >= 0.5)
    return Interval(
        np.minimum(at_low, at_high), np.where(holds_peak, 0.25, np.maximum(at_low, at_high))
    )


def histogram_edges(values: FloatArray) -> FloatArray:
    """Return the eleven edges of ten equal bins over all values; if all values are equal, the bins
    span one unit.
    """
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, HISTOGRAM_BINS + 1)


def histogram_by_group(values: FloatArray, starts: IntArray, edges: FloatArray) -> IntArray:
    """Return the counts per group and bin. A bin includes its lower edge; the last bin includes
    both edges.
    """
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, HISTOGRAM_BINS - 1)
    cells = group_of_rows(starts) * HISTOGRAM_BINS + bins
    counts = np.bincount(cells, minlength=(len(starts) - 1) * HISTOGRAM_BINS)
    return counts.reshape(-1, HISTOGRAM_BINS)


def correlation_by_group(first: FloatArray, right: FloatArray, starts: IntArray) -> FloatArray:
    """Return Pearson's r of each group, over rows with both values; NaN if either value does not
    vary.
    """
    both = ~(np.isnan(first) | np.isnan(right))
    weight = both.astype(np.float64)
    count = np.maximum(sum_by_group(weight, starts), 1)
    left_off = _deviations(first, both, count, starts)
    right_off = _deviations(right, both, count, starts)
    product = sum_by_group(left_off * right_off, starts)
    scale = np.sqrt(sum_by_group(left_off**2, starts)) * np.sqrt(sum_by_group(right_off**2, starts))
    varies = _varies(first, both, starts) & _varies(right, both, starts) & (scale > 0)
    r = np.full(len(starts) - 1, np.nan)
    np.divide(product, scale, out=r, where=varies)
    return np.asarray(np.clip(r, -1, 1), dtype=np.float64)


def _describe_dense(values: FloatArray, starts: IntArray) -> Description:
    count = np.diff(starts)
    low = np.minimum.reduceat(values, starts[:-1])
    high = np.maximum.reduceat(values, starts[:-1])
    unit = _units(low, high)
    if unit is not None:
        scaled = _describe_dense(values / np.repeat(unit, count), starts)
        with np.errstate(over="ignore"):  # a spread can be wider than any double, and is infinite
            std = scaled.std * unit
        return Description(count, scaled.mean * unit, high, low, _median(values, starts), std)
    # rounding must not carry the mean of equal values away from them, nor give them a spread
    mean = np.clip(mean_by_group(values, starts), low, high)
    squares = sum_by_group((values - np.repeat(mean, count)) ** 2, starts)
    std = np.where(low == high, 0.0, np.sqrt(squares / np.maximum(count - 1, 1)))
    return Description(count, mean, high, low, _median(values, starts), std)


def _units(low: FloatArray, high: FloatArray) -> FloatArray | None:
    """Return a divisor for each group, so that its squares do not overflow; None if no group needs
    one.

    The divisors are powers of two, which lose no precision; 1 for a group that needs none.
    """
    peak = np.maximum(np.abs(low), np.abs(high))
    large = peak > LARGEST_SQUARED
    if not large.any():
        return None
    _, exponent = np.frexp(peak)
    return np.ldexp(1.0, np.where(large, exponent - 1, 0))


def rows_by_size(values: FloatArray, starts: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield all groups of one size as the rows of a matrix, with the group numbers; sizes ascend.

    Most tasks of a run have the same number of rollouts, so there are few matrices.
    """
    sizes = np.diff(starts)
    for size in distinct(sizes).tolist():
        groups = np.flatnonzero(sizes == size)
        yield groups, values[starts[groups][:, np.newaxis] + np.arange(size)]


def _median(values: FloatArray, starts: IntArray) -> FloatArray:
    median = np.empty(len(starts) - 1)
    for groups, rows in rows_by_size(values, starts):
        size = rows.shape[1]
        rows.sort(axis=1)
        lower, upper = rows[:, (size - 1) // 2], rows[:, size // 2]
        median[groups] = np.where(lower == upper, lower, lower / 2 + upper / 2)
    return median


def _scattered(dense: Description | None, count: IntArray, non_empty: IntArray) -> Description:
    def spread(name: str) -> FloatArray:
        column = np.full(len(count), np.nan)
        if dense is not None:
            column[non_empty] = getattr(dense, name)
        return column

    return Description(count, **{name: spread(name) for name in STATISTICS})


def _deviations(
    values: FloatArray, present: BoolArray, count: FloatArray, starts: IntArray
) -> FloatArray:
    filled = np.where(present, values, 0.0)
    mean = sum_by_group(filled, starts) / count
    return np.asarray(np.where(present, filled - np.repeat(mean, np.diff(starts)), 0.0))


def _varies(values: FloatArray, present: BoolArray, starts: IntArray) -> BoolArray:
    high = np.maximum.reduceat(np.where(present, values, -np.inf), starts[:-1])
    low = np.minimum.reduceat(np.where(present, values, np.inf), starts[:-1])
    varies: BoolArray = high > low
    return varies
