"""Tests of a difference agree with enumeration, and reject as often as they say."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from palestra.analysis.comparison.compare import (
    _every_total,
    _random_totals,
    holm,
    mcnemar_p,
    minimum_detectable,
    sign_flip_p,
)

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=8)
SIXTEENTHS = st.lists(st.integers(-16, 16).map(lambda n: n / 16), min_size=1, max_size=9)
NULLS = [
    (tasks, rollouts, rates)
    for tasks, rollouts in ((50, 16), (100, 4), (200, 1), (500, 1), (500, 16))
    for rates in ((0.5, 0.5), (2.0, 2.0), (0.3, 3.0))
]


@given(SIXTEENTHS)
def test_the_sign_flip_p_value_is_a_share_of_all_sign_patterns(values: list[float]) -> None:
    found = abs(sum(values))
    totals = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True)))
        for signs in product((-1, 1), repeat=len(values))
    ]
    share = sum((t > found) + (t == found) / 2 for t in totals) / len(totals)

    expected = share if any(values) else 1.0
    assert sign_flip_p(np.array(values)) == pytest.approx(expected)


@given(SIXTEENTHS)
def test_the_test_treats_both_runs_alike(values: list[float]) -> None:
    assert sign_flip_p(np.array(values)) == sign_flip_p(-np.array(values))


def test_with_one_binary_rollout_it_is_mcnemars_mid_p() -> None:
    differences = np.concatenate([np.ones(30), -np.ones(14), np.zeros(60)])
    mid_p = mcnemar_p(14, 30) - stats.binom.pmf(14, 44, 0.5)

    assert sign_flip_p(differences, flips=200_000) == pytest.approx(mid_p, abs=0.001)


def test_random_patterns_estimate_what_all_patterns_give() -> None:
    sizes = np.arange(1, 15) / 16
    found = _random_totals(np.random.default_rng(3), sizes, 20_000)

    assert stats.ks_2samp(found, _every_total(sizes)).pvalue > 0.01


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_exact_binomial_test(only_a: int, only_b: int) -> None:
    if only_a + only_b == 0:
        assert mcnemar_p(0, 0) == 1.0
    else:
        exact = stats.binomtest(only_a, only_a + only_b).pvalue
        assert mcnemar_p(only_a, only_b) == pytest.approx(exact, rel=1e-9)


def test_mcnemar_takes_a_hundred_thousand_tasks() -> None:
    assert mcnemar_p(10_000, 10_300) == pytest.approx(
        stats.binomtest(10_000, 20_300).pvalue, rel=1e-6
    )


@given(P_VALUES)
def test_holm_never_makes_a_p_value_smaller_nor_changes_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)

    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    by_p = [a for _, a in sorted(zip(p_values, adjusted, strict=True))]
    assert by_p == sorted(by_p)


@given(P_VALUES, st.randoms())
def test_holm_does_not_depend_on_the_order_of_metrics(p_values: list[float], random) -> None:
    order = list(range(len(p_values)))
    random.shuffle(order)

    assert holm([p_values[i] for i in order]) == [holm(p_values)[i] for i in order]


def test_holm_on_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("tasks", "rollouts", "rates"), NULLS)
def test_of_2000_null_pairs_five_percent_are_rejected(
    tasks: int, rollouts: int, rates: tuple[float, float]
) -> None:
    random = np.random.default_rng([tasks, rollouts, int(10 * rates[0])])

    def rejected(seed: int) -> bool:
        rate = random.beta(*rates, tasks)
        difference = (random.binomial(rollouts, rate) - random.binomial(rollouts, rate)) / rollouts
        return sign_flip_p(difference, flips=1999, seed=seed) <= 0.05

    assert 4 <= 100 * np.mean([rejected(seed) for seed in range(2000)]) <= 6


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("tasks", "rollouts"), [(10, 1), (30, 1), (30, 4)])
def test_few_tasks_with_few_rollouts_are_rejected_too_rarely_but_never_too_often(
    tasks: int, rollouts: int
) -> None:
    random = np.random.default_rng(tasks)

    def rejected(seed: int) -> bool:
        rate = random.beta(0.5, 0.5, tasks)
        difference = (random.binomial(rollouts, rate) - random.binomial(rollouts, rate)) / rollouts
        return sign_flip_p(difference, flips=1999, seed=seed) <= 0.05

    assert 100 * np.mean([rejected(seed) for seed in range(2000)]) <= 6


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_minimum_detectable_difference_is_detected_in_four_of_five_runs() -> None:
    random = np.random.default_rng(8)

    def differences(shift: float) -> np.ndarray:
        rate = random.uniform(0.2, 0.7, 200)
        return (random.binomial(8, rate + shift) - random.binomial(8, rate)) / 8

    error = np.mean([differences(0.0).std(ddof=1) / 200**0.5 for _ in range(200)])
    shift = minimum_detectable(float(error))
    found = [sign_flip_p(differences(shift), flips=1999, seed=s) <= 0.05 for s in range(1000)]

    assert 0.77 <= np.mean(found) <= 0.83
