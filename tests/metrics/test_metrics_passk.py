"""Estimates of k attempts agree with exact enumeration of all subsets."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.metrics import expected_max_at_k, majority_at_k, max_weights, pass_at_k, pass_hat_k

SMALL = [(n, c, k) for n in range(1, 9) for c in range(n + 1) for k in range(1, n + 1)]


@pytest.mark.parametrize(("n", "c", "k"), SMALL)
def test_binary_estimates_are_shares_of_all_subsets(n: int, c: int, k: int) -> None:
    drawn = list(combinations([1] * c + [0] * (n - c), k))

    assert pass_at_k(n, c, k) == pytest.approx(sum(map(max, drawn)) / len(drawn), abs=1e-12)
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(min, drawn)) / len(drawn), abs=1e-12)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.data())
def test_expected_maximum_is_the_mean_over_all_subsets(
    rewards: list[float], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    best = [max(drawn) for drawn in combinations(rewards, k)]

    assert expected_max_at_k(rewards, k) == pytest.approx(sum(best) / len(best), abs=1e-9)


@given(st.integers(1, 60), st.data())
def test_for_binary_rewards_the_expected_maximum_is_pass_at_k(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))

    expected = pytest.approx(pass_at_k(n, c, k), abs=1e-12)
    assert expected_max_at_k([1.0] * c + [0.0] * (n - c), k) == expected


@pytest.mark.parametrize(
    ("n", "c", "k"), [(100_000, 1, 1), (100_000, 3, 50_000), (100_000, 40_000, 7), (99_999, 2, 16)]
)
def test_estimates_keep_their_digits_for_a_hundred_thousand_rollouts(
    n: int, c: int, k: int
) -> None:
    exact = 1 - Fraction(comb(n - c, k), comb(n, k)) if k < 100 else None
    if exact is None:
        exact = 1 - Fraction(comb(n - k, c), comb(n, c))

    assert pass_at_k(n, c, k) == pytest.approx(float(exact), rel=1e-10)
    assert expected_max_at_k([1.0] * c + [0.0] * (n - c), k) == pytest.approx(
        float(exact), rel=1e-9
    )
    assert sum(max_weights(n, k)) == pytest.approx(1.0, rel=1e-9)


def test_all_correct_of_many_is_kept_small_but_not_zero() -> None:
    assert pass_hat_k(100_000, 99_998, 50_000) == pytest.approx(0.25, rel=1e-4)
    assert pass_at_k(10, 0, 3) == 0.0
    assert pass_at_k(10, 8, 3) == 1.0


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 1, 0), (0, 0, 1), (4, 5, 1), (4, -1, 1)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="must be between"):
        pass_at_k(n, c, k)
    with pytest.raises(ValueError, match="must be between"):
        pass_hat_k(n, c, k)


@pytest.mark.parametrize(
    ("answers", "scores", "expected"),
    [
        (["a", "a", "b"], [1.0, 1.0, 0.0], 1.0),
        (["a", "b"], [1.0, 0.0], 0.5),
        ([None, None, "b"], [0.0, 0.0, 1.0], 1.0),
        ([None, None], [1.0, 1.0], 0.0),
        (["a", "a", "b", "b", "b"], [1.0, 1.0, 0.0, 0.0, 0.0], 0.0),
        (["a", "a", "b"], [1.0, 0.5, 0.0], 0.75),
        (["a", "b", "c"], [1.0, 0.0, 0.5], 0.5),
    ],
)
def test_the_majority_wins_and_ties_share(
    answers: list[str | None], scores: list[float], expected: float
) -> None:
    assert majority_at_k(answers, scores) == pytest.approx(expected)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([0.0, 0.5, 1.0])),
        min_size=1,
        max_size=8,
    )
)
def test_votes_are_counted_as_by_hand(ballots: list[tuple[str | None, float]]) -> None:
    answers, scores = zip(*ballots, strict=True)
    counted = Counter(answer for answer in answers if answer is not None)
    most = max(counted.values(), default=0)
    worth = [
        fmean(score for other, score in ballots if other == answer)
        for answer, votes in counted.items()
        if votes == most
    ]

    assert majority_at_k(answers, scores) == pytest.approx(fmean(worth) if worth else 0.0)


def test_a_vote_of_k_is_of_the_first_k() -> None:
    assert majority_at_k(["a", "b", "b"], [1.0, 0.0, 0.0], 1) == 1.0
    with pytest.raises(ValueError, match="k must be between"):
        majority_at_k(["a"], [1.0], 2)


@given(st.permutations([("a", 1.0), ("a", 1.0), ("b", 0.0), ("b", 0.0), (None, 0.0)]))
def test_a_vote_of_all_does_not_depend_on_order(ballots: list[tuple[str | None, float]]) -> None:
    answers, scores = zip(*ballots, strict=True)

    assert majority_at_k(answers, scores) == 0.5
