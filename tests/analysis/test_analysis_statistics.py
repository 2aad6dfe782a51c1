"""Group statistics agree with the plain-Python ones, on any numbers in any groups."""

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.metrics import (
    correlation_by_group,
    describe,
    histogram_by_group,
    histogram_edges,
    learnability_interval,
    wilson_interval,
)

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
SPARSE = st.one_of(NUMBERS, st.just(math.nan))
GROUPS = st.lists(st.lists(SPARSE, min_size=1, max_size=6), min_size=1, max_size=6)
VARIED = st.lists(st.integers(-50, 50), min_size=2, max_size=12)


def flattened(groups: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    return np.array([value for group in groups for value in group]), starts


def reference(group: Sequence[float]) -> tuple[float, ...]:
    present = [value for value in group if not math.isnan(value)]
    if not present:
        return (math.nan,) * 5
    return (
        statistics.fmean(present),
        max(present),
        min(present),
        statistics.median(present),
        statistics.stdev(present) if len(present) > 1 else 0.0,
    )


@given(GROUPS)
def test_every_group_is_described_as_plain_python_would(groups: list[list[float]]) -> None:
    found = describe(*flattened(groups))

    described = zip(found.mean, found.max, found.min, found.median, found.std, strict=True)
    for group, row in zip(groups, described, strict=True):
        assert row == pytest.approx(reference(group), rel=1e-9, abs=1e-6, nan_ok=True)


@given(NUMBERS, st.integers(1, 9))
def test_equal_values_have_exactly_their_mean_and_no_spread(value: float, count: int) -> None:
    found = describe(*flattened([[value] * count]))

    assert (found.mean[0], found.median[0], found.std[0]) == (value, value, 0.0)


@pytest.mark.filterwarnings("error")
def test_the_mean_of_values_whose_sum_overflows_is_the_mean() -> None:
    found = describe(*flattened([[-1e308, -1e308, 1e308, -1e308], [1.7e308, 1.7e308]]))

    assert found.mean.tolist() == [-5e307, 1.7e308]
    assert found.std.tolist() == pytest.approx([1e308, 0.0])


@pytest.mark.filterwarnings("error")
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=6), st.integers(480, 1000))
def test_very_large_values_are_described_as_small_ones_scaled(
    values: list[int], exponent: int
) -> None:
    small = [float(value) for value in values]
    found = describe(*flattened([[math.ldexp(value, exponent) for value in small], small]))

    for name in ("mean", "max", "min", "median", "std"):
        large, plain = getattr(found, name).tolist()
        assert large == math.ldexp(plain, exponent)


@pytest.mark.filterwarnings("error")
def test_a_spread_wider_than_any_number_is_infinite_and_the_mean_is_not() -> None:
    found = describe(*flattened([[-1.7e308, 1.7e308]]))

    assert (found.mean[0], found.std[0]) == (0.0, math.inf)


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_histogram_holds_every_value_once(groups: list[list[float]]) -> None:
    values, starts = flattened(groups)
    counts = histogram_by_group(values, starts, histogram_edges(values))

    assert counts.sum(axis=1).tolist() == [len(group) for group in groups]
    assert counts.sum(axis=0).tolist() == np.histogram(values, histogram_edges(values))[0].tolist()


@given(VARIED, VARIED)
def test_correlation_is_pearsons(left: list[int], right: list[int]) -> None:
    size = min(len(left), len(right))
    x, y = [float(v) for v in left[:size]], [float(v) for v in right[:size]]
    found = correlation_by_group(np.array(x), np.array(y), np.array([0, size]))[0]

    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(statistics.correlation(x, y), abs=1e-9)


def test_correlation_looks_only_at_rows_with_both() -> None:
    left = np.array([1.0, 2.0, 3.0, 9.0, 1.0, 1.0])
    right = np.array([2.0, 4.0, 6.0, math.nan, 5.0, math.nan])

    assert correlation_by_group(left, right, np.array([0, 4, 6])).tolist() == pytest.approx(
        [1.0, math.nan], nan_ok=True
    )


def test_wilson_interval_matches_a_published_value() -> None:
    # Newcombe 1998, table I: 81 of 263, 95 %
    interval = wilson_interval(np.array([81]), np.array([263]), confidence=0.95)

    assert (interval.low[0], interval.high[0]) == pytest.approx((0.2553, 0.3662), abs=5e-5)


@given(st.integers(1, 40), st.data())
def test_learnability_interval_covers_every_rate_of_its_interval(
    n: int, data: st.DataObject
) -> None:
    solved = data.draw(st.integers(0, n))
    rates = wilson_interval(np.array([solved]), np.array([n]), confidence=0.9)
    interval = learnability_interval(rates)
    inside = np.linspace(rates.low[0], rates.high[0], 101)

    assert interval.low[0] <= (inside * (1 - inside)).min() + 1e-12
    assert interval.high[0] >= (inside * (1 - inside)).max() - 1e-12
