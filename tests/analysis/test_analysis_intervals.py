"""Intervals clustered by task: what they are of, and that they cover."""

import math
import statistics
import tracemalloc
from collections.abc import Callable
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from palestra.analysis import Estimate, estimate_difference, estimate_level
from palestra.analysis.intervals import (
    _drawn_means,
    resampled_means,
    student_quantile,
    unvaried_interval,
)
from palestra.metrics import sum_by_group

RATES = {
    "u-shaped": (0.5, 0.5),
    "middling": (2.0, 2.0),
    "hard": (0.3, 3.0),
}
"""Beta distributions of pass rates over tasks."""


@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 9, 29, 1000])
def test_students_quantile_is_close_to_the_exact_one(degrees: int) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=0.002)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=2, max_size=30))
def test_an_estimate_does_not_depend_on_the_order_of_tasks(tasks: list[tuple[int, int]]) -> None:
    sums, counts = (np.array(column, dtype=float) for column in zip(*tasks, strict=True))

    one, other = estimate_level(sums, counts), estimate_level(sums[::-1], counts[::-1])
    assert astuple(one) == pytest.approx(astuple(other))


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=30),
    st.sampled_from([estimate_level, estimate_difference]),
)
def test_the_interval_holds_the_mean_and_stays_within_the_limits(
    values: list[float], estimate: Callable[..., Estimate]
) -> None:
    sums = np.array(values)
    arguments = (sums, np.ones(len(sums))) if estimate is estimate_level else (sums,)
    found = estimate(*arguments, limits=(0.0, 1.0), resamples=200)

    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.filterwarnings("error")
def test_the_interval_of_very_large_values_is_that_of_small_ones_scaled() -> None:
    size = 2.0**360
    sums, ones = np.array([0.0, 1.0, 1.0, 3.0, 8.0, 2.0, 0.0, 1.0, 5.0, 1.0]), np.ones(10)
    plain = estimate_level(sums, ones, limits=None)
    found = estimate_level(sums * size, ones, limits=None)

    assert astuple(found) == pytest.approx([end * size for end in astuple(plain)])


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), min_size=2, max_size=8))
def test_the_standard_error_is_the_one_clustered_by_task(groups: list[list[int]]) -> None:
    values = np.concatenate(groups).astype(float)
    starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    found = estimate_level(sum_by_group(values, starts), np.diff(starts))

    off = [float(np.sum(np.array(group) - values.mean())) for group in groups]
    variance = len(groups) / (len(groups) - 1) * sum(total**2 for total in off)
    assert found.standard_error == pytest.approx(math.sqrt(variance) / len(values), abs=1e-12)


def test_clustering_by_single_rollouts_gives_the_ordinary_standard_error() -> None:
    values = np.array([0.0, 1.0, 1.0, 0.5, 0.25])
    found = estimate_level(values, np.ones(5, dtype=np.int64))

    assert found.standard_error == pytest.approx(statistics.stdev(values.tolist()) / math.sqrt(5))


def test_copies_of_a_rollout_add_no_certainty() -> None:
    values = np.array([0.0, 1.0, 1.0, 0.5])
    once = estimate_level(values, np.ones(4, dtype=np.int64))
    often = estimate_level(values * 8, np.full(4, 8))

    assert often.standard_error == pytest.approx(once.standard_error)


def test_tasks_drawn_by_kind_are_drawn_as_one_by_one() -> None:
    sums = np.repeat([0.0, 1.0, 3.0, 4.0], [10, 5, 5, 20])
    counts = np.repeat([4.0, 4.0, 3.0, 4.0], [10, 5, 5, 20])
    by_kind = resampled_means(sums, counts, resamples=20_000)
    one_by_one = np.concatenate(list(_drawn_means(np.random.default_rng(1), sums, counts, 20_000)))

    assert stats.ks_2samp(by_kind, one_by_one).pvalue > 0.01


def test_one_task_has_no_interval() -> None:
    one = np.ones(1)

    assert estimate_level(one, one) == Estimate(1.0, None, None, None)
    assert estimate_difference(one) == Estimate(1.0, None, None, None)


def test_thirty_tasks_that_were_all_solved_are_not_certainty() -> None:
    found = estimate_level(np.full(30, 8.0), np.full(30, 8.0))

    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low**30 == pytest.approx(0.025)


def test_equal_runs_may_still_differ() -> None:
    found = estimate_difference(np.zeros(30), limits=(-1.0, 1.0))

    assert (found.low, found.high) == (
        pytest.approx(-0.1157, abs=1e-4),
        pytest.approx(0.1157, abs=1e-4),
    )


def test_nothing_is_said_about_equal_values_without_limits() -> None:
    assert unvaried_interval(7.0, 30, None) == (None, None)


def test_the_bootstrap_of_many_tasks_takes_little_memory() -> None:
    values = np.random.default_rng(0).random(20_000)
    tracemalloc.start()
    resampled_means(values, np.ones(20_000), resamples=400)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 64 * 1024**2


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("rollouts", [1, 4, 16])
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize(("tasks", "least", "most"), [(30, 92.0, 99.5), (100, 93.0, 98.0)])
def test_intervals_of_a_level_cover_its_true_value(
    tasks: int, least: float, most: float, rates: str, rollouts: int
) -> None:
    random = np.random.default_rng(tasks + rollouts)
    a, b = RATES[rates]
    size = np.full(tasks, rollouts)

    def covers(seed: int) -> bool:
        solved = random.binomial(rollouts, random.beta(a, b, tasks)).astype(float)
        found = estimate_level(solved, size, seed=seed, resamples=1000)
        return bool(found.low <= a / (a + b) <= found.high)

    assert least <= 100 * np.mean([covers(seed) for seed in range(1000)]) <= most


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("rollouts", [1, 4, 16])
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("tasks", [30, 100])
def test_intervals_of_a_difference_cover_its_true_value(
    tasks: int, rates: str, rollouts: int
) -> None:
    random = np.random.default_rng(tasks + rollouts)

    def covers(seed: int) -> bool:
        rate = random.beta(*RATES[rates], tasks)
        difference = (random.binomial(rollouts, rate) - random.binomial(rollouts, rate)) / rollouts
        found = estimate_difference(difference, limits=(-1, 1), seed=seed, resamples=1000)
        return bool(found.low <= 0 <= found.high)

    assert 93 <= 100 * np.mean([covers(seed) for seed in range(1000)]) <= 97.5
