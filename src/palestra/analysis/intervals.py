"""Computes confidence intervals that allow for dependence between rollouts of one task.

The bootstrap draws tasks, never single rollouts: a resample takes as many tasks as the run has,
with replacement, each with all its rollouts. The kind of interval was chosen by measured coverage
(docs/topics/decisions.md):

- for a *level* (a mean reward, a pass rate) BCa, which follows the skew of rates near 0 and 1;
- for a *difference* of two paired runs the percentile interval, since the differences are nearly
  symmetric and BCa's estimate of their skew is mostly noise.

Both are *expanded* (Hesterberg 2015): the quantiles are moved outwards by the ratio of Student's t
to the normal quantile, and by the ratio of the sample's standard deviation to that of its
resamples. Without the expansion, intervals from thirty tasks cover 91 to 94 % instead of 95.
Resamples never go beyond the observed values, so below ten tasks the interval is at least as wide
as Student's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import pi, sqrt, tan
from statistics import NormalDist

import numpy as np

from palestra.metrics import FloatArray, IntArray

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 20_260_101
FEW_TASKS = 10
MOST_KINDS = 256
"""With at most this many kinds of tasks, only the number of tasks of each kind is drawn."""
CELLS_AT_ONCE = 2_000_000
"""The largest number of drawn task indices in memory at once: 16 MB."""
UNIT = (0.0, 1.0)

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval. For a single task, `low`, `high` and `standard_error` are
    None.

    `low` and `high` are also None when all values are equal and their limits are unknown.
    """

    value: float
    standard_error: float | None
    low: float | None
    high: float | None


def estimate_level(
    sums: FloatArray,
    counts: IntArray | FloatArray,
    *,
    limits: tuple[float, float] | None = UNIT,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Estimate:
    """Return the mean over all rollouts with its expanded BCa interval (Efron 1987).

    `sums`, `counts`: the sum of the values and the number of rollouts of each task. With task means
    as `sums` and `counts` of 1, the result is the mean over tasks with equal weights. `limits`: the
    least and largest possible value of a rollout. They are used when all tasks have the same value,
    where a bootstrap would give an interval of width 0 (see `unvaried_interval`), and to clip the
    wider interval of few tasks.
    """
    value = float(sums.sum() / counts.sum())
    if len(sums) < 2:
        return Estimate(value, None, None, None)
    influence = sums - value * counts
    error = _standard_error(influence, counts)
    if _unvaried(influence, sums):
        return Estimate(value, 0.0, *unvaried_interval(value, len(sums), limits, confidence))
    means = np.sort(resampled_means(sums, counts, resamples=resamples, seed=seed))
    shares = _bca_shares(means, value, influence, confidence, tolerance=1e-9 * error)
    ends = np.quantile(means, shares).tolist()
    return _estimate(value, error, len(sums), ends, limits, confidence)


def estimate_difference(
    differences: FloatArray,
    *,
    limits: tuple[float, float] | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Estimate:
    """Return the mean of `differences`, one per task, with its expanded percentile interval.

    `limits`: the least and largest possible difference.
    """
    value = float(differences.mean())
    if len(differences) < 2:
        return Estimate(value, None, None, None)
    ones = np.ones(len(differences))
    influence = differences - value
    error = _standard_error(influence, ones)
    if _unvaried(influence, differences):
        interval = unvaried_interval(value, len(differences), limits, confidence)
        return Estimate(value, 0.0, *interval)
    means = resampled_means(differences, ones, resamples=resamples, seed=seed)
    tail = _NORMAL.cdf(-_expanded(confidence, len(differences)))
    ends = np.quantile(means, [tail, 1 - tail]).tolist()
    return _estimate(value, error, len(differences), ends, limits, confidence)


def unvaried_interval(
    value: float, tasks: int, limits: tuple[float, float] | None, confidence: float = CONFIDENCE
) -> tuple[float | None, float | None]:
    """Return the interval of a mean when all of `tasks` tasks have the same value.

    If the true mean were further than b = 1 - (alpha / 2)^(1 / tasks) of the way towards a limit,
    the probability of `tasks` equal values would be below alpha / 2. The interval is exact for 0/1
    values and conservative for others. Returns (None, None) when `limits` is None.
    """
    if limits is None:
        return None, None
    reach = 1 - ((1 - confidence) / 2) ** (1 / tasks)
    low, high = min(limits[0], value), max(limits[1], value)
    return value - (value - low) * reach, value + (high - value) * reach


def resampled_means(
    sums: FloatArray,
    counts: IntArray | FloatArray,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> FloatArray:
    """Return, for each of `resamples` draws of tasks with replacement, the sum of `sums` over the
    sum of `counts`.

    Memory is bounded for any number of tasks. Tasks with equal sum and count form one kind. With at
    most `MOST_KINDS` kinds, the function draws the number of tasks of each kind; 20,000 tasks of 16
    binary rollouts are 17 kinds.
    """
    random = np.random.default_rng(seed)
    kinds, sizes = _kinds(sums, counts)
    if len(kinds) <= MOST_KINDS:
        drawn = random.multinomial(len(sums), sizes / len(sums), size=resamples) @ kinds
        return np.asarray(drawn[:, 0] / drawn[:, 1])
    return np.concatenate(list(_drawn_means(random, sums, counts, resamples)))


def _kinds(sums: FloatArray, counts: IntArray | FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct pairs of sum and count, ascending, and the number of tasks of each."""
    pairs = np.column_stack([sums, counts])[np.lexsort((counts, sums))]
    is_first = np.append(True, (pairs[1:] != pairs[:-1]).any(axis=1))
    starts = np.flatnonzero(is_first)
    return np.asarray(pairs[starts], np.float64), np.diff(np.append(starts, len(pairs)))


def student_quantile(share: float, degrees: int) -> float:
    """Return the quantile of Student's t at `share`, which is at least 0.5.

    Exact for 1 and 2 degrees of freedom, else the Cornish-Fisher expansion (Abramowitz and Stegun
    26.7.5): the error at 95 % is within 0.2 % for 3 degrees, within 0.02 % from 5 on.
    """
    if degrees == 1:
        return tan(pi * (share - 0.5))
    if degrees == 2:
        return (2 * share - 1) / sqrt(2 * share * (1 - share))
    z = _NORMAL.inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** power for power, term in enumerate(terms, start=1))


def _estimate(
    value: float,
    error: float,
    tasks: int,
    ends: Sequence[float],
    limits: tuple[float, float] | None,
    confidence: float,
) -> Estimate:
    """Return the estimate with the interval `ends`, widened to Student's interval for fewer than
    `FEW_TASKS` tasks.
    """
    low, high = min(ends[0], value), max(ends[1], value)
    if tasks < FEW_TASKS:
        half = student_quantile((1 + confidence) / 2, tasks - 1) * error
        low, high = min(low, value - half), max(high, value + half)
        if limits is not None:
            low, high = max(low, limits[0]), min(high, limits[1])
    return Estimate(value, error, low, high)


def _drawn_means(
    random: np.random.Generator, sums: FloatArray, counts: IntArray | FloatArray, resamples: int
) -> Iterator[FloatArray]:
    tasks = len(sums)
    even = bool(np.all(counts == counts[0]))
    at_once = max(1, CELLS_AT_ONCE // tasks)
    for first in range(0, resamples, at_once):
        drawn = random.integers(0, tasks, (min(at_once, resamples - first), tasks))
        total = counts[0] * tasks if even else counts[drawn].sum(axis=1)
        yield sums[drawn].sum(axis=1) / total


def _bca_shares(
    ordered: FloatArray, value: float, influence: FloatArray, confidence: float, tolerance: float
) -> list[float]:
    """Return the two quantiles (as shares) of the resampled means at which the BCa interval ends."""
    resamples = len(ordered)
    below, up_to = np.searchsorted(ordered, [value - tolerance, value + tolerance])
    share = float(np.clip((below + up_to) / 2 / resamples, 1 / resamples, 1 - 1 / resamples))
    bias = _NORMAL.inv_cdf(share)
    # the acceleration has no unit, and powers of large sums would overflow
    scaled = influence / np.max(np.abs(influence))
    acceleration = float(np.sum(scaled**3) / (6 * np.sum(scaled**2) ** 1.5))
    reach = _expanded(confidence, len(influence))
    return [_bca_share(bias, acceleration, z) for z in (-reach, reach)]


def _bca_share(bias: float, acceleration: float, z: float) -> float:
    scale = 1 - acceleration * (bias + z)
    if scale <= 0:
        return float(z > 0)
    return _NORMAL.cdf(bias + (bias + z) / scale)


def _expanded(confidence: float, tasks: int) -> float:
    """Return the expanded quantile, in standard deviations of the normal, at which the interval
    ends.
    """
    return student_quantile((1 + confidence) / 2, tasks - 1) * sqrt(tasks / (tasks - 1))


def _standard_error(influence: FloatArray, counts: IntArray | FloatArray) -> float:
    """Return the standard error of a mean over tasks whose rollouts depend on each other.

    sqrt(G / (G - 1) * sum over tasks g of (sum over i in g of (y_i - mean))^2) / N, for N values of
    G tasks: the cluster-robust variance of a mean (Miller 2024, "Adding Error Bars to Evals",
    section 2.2) with the usual correction for few clusters (Cameron and Miller 2015). `influence`:
    the inner sum of each task.
    """
    tasks = len(influence)
    return float(np.sqrt(tasks / (tasks - 1) * np.sum(influence**2)) / counts.sum())


def _unvaried(influence: FloatArray, sums: FloatArray) -> bool:
    """Whether the tasks differ by no more than rounding errors."""
    return bool(np.max(np.abs(influence)) <= 1e-12 * max(1.0, float(np.max(np.abs(sums)))))
