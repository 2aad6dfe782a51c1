"""Whether a difference between two runs is more than chance. Pure; tasks are the unit."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from palestra.analysis.intervals import CELLS_AT_ONCE, SEED
from palestra.metrics import FloatArray

FLIPS = 9_999
ENUMERATED = 14
"""Up to so many tasks that differ, all sign patterns are counted."""
LEVEL = 0.05
POWER = 0.8


def sign_flip_p(differences: FloatArray, *, flips: int = FLIPS, seed: int = SEED) -> float:
    """Two-sided p-value of the hypothesis that neither run is better, clustered by task.

    If it holds, each task's difference could as well have the other sign. The p-value is the share
    of sign patterns whose total is further from zero than what was found, and half of those as far
    (mid-p: Lancaster 1961; Fagerland, Lydersen and Laake 2013); with one binary rollout per task
    that is McNemar's mid-p test. Counted in full for few tasks, else among `flips` random patterns.
    """
    sizes = np.abs(differences[differences != 0])
    found = abs(float(differences.sum()))
    if not len(sizes):
        return 1.0
    if len(sizes) <= ENUMERATED:
        totals = _every_total(sizes)
        return float(_mid_p(totals, found, sizes) / len(totals))
    totals = _random_totals(np.random.default_rng(seed), sizes, flips)
    return float((_mid_p(totals, found, sizes) + 0.5) / (flips + 1))


def mcnemar_p(only_a: int, only_b: int) -> float:
    """Exact two-sided p-value of McNemar's test (McNemar 1947), in whole numbers.

    `only_a`, `only_b`: tasks that one run solved and the other did not. Twice the probability of so
    few or fewer among that many throws of a fair coin, at most 1.
    """
    discordant = only_a + only_b
    term = tail = 1
    for place in range(min(only_a, only_b)):
        term = term * (discordant - place) // (place + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << discordant))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for being several (Holm 1979), in the order given.

    The i-th smallest of m is multiplied by m - i + 1, and never comes below a smaller one.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def minimum_detectable(standard_error: float) -> float:
    """The true difference that a test at 5 % would find in 80 % of such comparisons.

    (z(1 - 0.05/2) + z(0.8)) * standard error = 2.80 standard errors (Bloom 1995; Miller 2024,
    "Adding Error Bars to Evals", section 5).
    """
    normal = NormalDist()
    return (normal.inv_cdf(1 - LEVEL / 2) + normal.inv_cdf(POWER)) * standard_error


def _mid_p(totals: FloatArray, found: float, sizes: FloatArray) -> float:
    """How many totals are further from zero than `found`, those as far counting half."""
    tolerance = 1e-9 * float(sizes.sum())
    distance = np.abs(totals)
    further = np.count_nonzero(distance > found + tolerance)
    as_far = np.count_nonzero(distance >= found - tolerance) - further
    return further + as_far / 2


def _every_total(sizes: FloatArray) -> FloatArray:
    totals = np.zeros(1)
    for size in sizes.tolist():
        totals = np.concatenate([totals - size, totals + size])
    return totals


def _random_totals(random: np.random.Generator, sizes: FloatArray, flips: int) -> FloatArray:
    """Totals under random signs, one bit each."""
    at_once = max(1, CELLS_AT_ONCE // len(sizes))
    parts = []
    for first in range(0, flips, at_once):
        shape = (min(at_once, flips - first), len(sizes))
        packed = np.frombuffer(random.bytes(-(-shape[0] * shape[1] // 8)), dtype=np.uint8)
        plus = np.unpackbits(packed, count=shape[0] * shape[1]).reshape(shape)
        parts.append(2 * (plus.astype(np.float64) @ sizes) - sizes.sum())
    return np.concatenate(parts)
