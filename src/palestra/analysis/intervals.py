"""Confidence intervals that know that rollouts of one task are not independent.

Tasks are what is drawn again, never rollouts: a resample takes as many tasks as there are, with
replacement, each with all its rollouts. Which interval is made of the resampled means was chosen by
measured coverage (docs/decisions.md):

- for a *level* (a mean reward, a pass rate) BCa, which follows the skew of rates near 0 and 1;
- for a *difference* of two paired runs the percentile interval, since the differences are nearly
  symmetric and BCa's estimate of their skew is mostly noise.

Both are *expanded* (Hesterberg 2015): quantiles as far out as Student's t is wider than the
normal, and the spread of a sample than that of its resamples. Without it thirty tasks cover 91 to
94 % instead of 95. Resamples never reach beyond what was seen, so below ten tasks the interval is
at least as wide as Student's.
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
"""Up to here tasks are drawn by how many of each kind there are."""
CELLS_AT_ONCE = 2_000_000
"""Drawn tasks held in memory at a time: 16 MB of indices."""
UNIT = (0.0, 1.0)

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval; `low`, `high` and `standard_error` None for one task.

    `low` and `high` are also None where no interval can be given: values of unknown limits that
    are all equal.
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
    """The mean of all rollouts, `sums` over `counts` of each task, with its expanded BCa interval.

    With `counts` of 1 and task means for `sums` it is the mean over tasks, each weighing the same.
    `limits`: the least and largest value that a rollout can have, used only when all tasks are
    equal and a bootstrap would claim certainty; see `unvaried_interval`. BCa: Efron 1987.
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
    """The mean of one difference per task, with its expanded percentile interval.

    `limits`: the least and largest difference there can be.
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
    """The interval of a mean when every one of `tasks` tasks has the same value.

    If the mean were further than b = 1 - (alpha / 2)^(1 / tasks) of the way towards a limit, that
    many equal tasks would have a probability below alpha / 2; exact for 0/1 values, conservative
    for others. Without limits nothing can be said.
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
    """The ratio of sums to counts in each of `resamples` draws of as many tasks, with replacement.

    Memory is bounded whatever the number of tasks. Tasks with equal sum and count cannot be told
    apart, so where there are few kinds it is drawn how many of each kind come; 20,000 tasks of 16
    binary rollouts are 17 kinds.
    """
    random = np.random.default_rng(seed)
    kinds, sizes = np.unique(np.column_stack([sums, counts]), axis=0, return_counts=True)
    if len(kinds) <= MOST_KINDS:
        drawn = random.multinomial(len(sums), sizes / len(sums), size=resamples) @ kinds
        return np.asarray(drawn[:, 0] / drawn[:, 1])
    return np.concatenate(list(_drawn_means(random, sums, counts, resamples)))


def student_quantile(share: float, degrees: int) -> float:
    """The quantile of Student's t for `share` of at least a half.

    Exact for 1 and 2 degrees of freedom, else the Cornish-Fisher expansion (Abramowitz and Stegun
    26.7.5): at 95 % within 0.2 % of the truth for 3 degrees, within 0.02 % from 5 on.
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
    """The estimate whose interval has these `ends`, wider if there are few tasks."""
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
    """The shares of resampled means at which the BCa interval ends."""
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
    """How many normal deviations out the quantiles of the resamples are taken."""
    return student_quantile((1 + confidence) / 2, tasks - 1) * sqrt(tasks / (tasks - 1))


def _standard_error(influence: FloatArray, counts: IntArray | FloatArray) -> float:
    """Standard error of a mean over tasks whose rollouts are not independent of each other.

    sqrt(G / (G - 1) * sum over tasks g of (sum over i in g of (y_i - mean))^2) / N, for N values
    of G tasks: the cluster-robust variance of a mean (Miller 2024, "Adding Error Bars to Evals",
    section 2.2) with the usual correction for few clusters (Cameron and Miller 2015).
    `influence`: per task the inner sum.
    """
    tasks = len(influence)
    return float(np.sqrt(tasks / (tasks - 1) * np.sum(influence**2)) / counts.sum())


def _unvaried(influence: FloatArray, sums: FloatArray) -> bool:
    """Whether what differs between tasks is at most rounding."""
    return bool(np.max(np.abs(influence)) <= 1e-12 * max(1.0, float(np.max(np.abs(sums)))))
