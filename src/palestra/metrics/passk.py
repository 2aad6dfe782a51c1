"""Estimates the scores of k attempts at a task from n >= k rollouts of the task.

Except for majority votes, every estimate is an expectation over all subsets of k of the n rollouts,
so the order of rollouts does not matter. Using only the first k (as NeMo Gym does for rewards that
are not binary) has the same expectation over random orders, but more variance.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from palestra.metrics.columns import FloatArray


def majority_at_k(
    answers: Sequence[Hashable | None], scores: Sequence[float], k: int | None = None
) -> float:
    """Return the expected score of the majority answer of the first k rollouts; by default, of all
    rollouts.

    The score of an answer is the mean score of the rollouts that gave it; these scores are equal if
    the verifier is deterministic. Answers with equally many votes share the win. A rollout without
    an answer (None) does not vote; without any votes the score is 0. For k = n the result does not
    depend on order; for k < n only the first k rollouts are used, as in NeMo Gym.
    """
    if k is None:
        k = len(answers)
    if not 1 <= k <= len(answers):
        raise ValueError(f"k must be between 1 and the number of rollouts ({len(answers)})")
    return majorities(answers[:k], scores[:k])[-1]


def majorities(answers: Sequence[Hashable | None], scores: Sequence[float]) -> list[float]:
    """Return `majority_at_k` for k = 1, 2, …, n, in one pass over the votes."""
    votes: dict[Hashable, int] = {}
    totals: dict[Hashable, float] = {}
    most_votes, worth = 0, 0.0
    worths = []
    for answer, score in zip(answers, scores, strict=True):
        if answer is not None:
            votes[answer] = votes.get(answer, 0) + 1
            totals[answer] = totals.get(answer, 0.0) + score
            most_votes = max(most_votes, votes[answer])
            means = [totals[a] / count for a, count in votes.items() if count == most_votes]
            # summed in order of worth, so that who voted first does not show in a last digit
            worth = sum(sorted(means)) / len(means)
        worths.append(worth)
    return worths


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the probability that k of n rollouts, c of them correct, include a correct one.

    1 - C(n - c, k) / C(n, k), unbiased (Chen et al. 2021, "Evaluating Large Language Models Trained
    on Code"), computed with logarithms so that small probabilities keep their digits.
    """
    _check(n, k)
    _check_correct(n, c)
    if c > n - k:
        return 1.0
    if c == 0:
        return 0.0
    # C(n - c, k) / C(n, k) is symmetric in c and k: take the shorter product
    fewer, larger = sorted((c, k))
    factors = -larger / (n - np.arange(fewer))
    return float(-np.expm1(np.sum(np.log1p(factors))))


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return the probability that k of n rollouts, c of them correct, are all correct: C(c, k) /
    C(n, k).
    """
    _check(n, k)
    _check_correct(n, c)
    if k > c:
        return 0.0
    # the same ratio with n - c for k, where that is the shorter product
    wrong = n - c
    if wrong < k:
        return float(np.prod((n - k - np.arange(wrong)) / (n - np.arange(wrong))))
    return float(np.prod((c - np.arange(k)) / (n - np.arange(k))))


def expected_max_at_k(rewards: Sequence[float] | FloatArray, k: int) -> float:
    """Return the expected maximum of k rewards drawn without replacement; for 0/1 rewards this is
    pass@k.
    """
    ordered = np.sort(np.asarray(rewards, dtype=np.float64))
    return float(expected_max_of_sorted(ordered[np.newaxis, :], k)[0])


def expected_max_of_sorted(ordered: FloatArray, k: int) -> FloatArray:
    """Return `expected_max_at_k` of each row of a matrix; the rows are sorted in ascending order."""
    best = ordered[:, -1:]
    # weighing the distances from the best keeps equal rewards exact
    shortfall = (best - ordered) @ max_weights(ordered.shape[1], k)
    return np.asarray(best[:, 0] - shortfall, dtype=np.float64)


def max_weights(n: int, k: int) -> FloatArray:
    """Return, for each i, the probability that the i-th smallest of n values is the largest of k:
    C(i - 1, k - 1) / C(n, k).

    Computed from the largest i down: each weight is the weight of i + 1 times (i + 1 - k) / i.
    Weights that underflow are zero.
    """
    _check(n, k)
    below = np.arange(n - 1, 0, -1, dtype=np.float64)
    ratios = np.maximum(below + 1 - k, 0) / below
    descending = np.cumprod(np.concatenate([[k / n], ratios]))
    return descending[::-1].copy()


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and the number of rollouts ({n}), not {k}")


def _check_correct(n: int, c: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"correct rollouts must be between 0 and {n}, not {c}")
