"""What a vote among k answers is worth."""

from collections.abc import Hashable, Sequence


def majority_at_k(
    answers: Sequence[Hashable | None], scores: Sequence[float], k: int | None = None
) -> float:
    """Expected score of the answer that the first k rollouts vote for; all of them by default.

    An answer's score is the mean score of those who gave it, which is the same for all of them
    unless a verifier is unsteady. Answers that tie share the win; a rollout without an answer
    (None) does not vote, and if nobody votes the score is 0. For k = n this does not depend on
    order; for k < n it looks at the first k rollouts only, as the field does.
    """
    if k is None:
        k = len(answers)
    if not 1 <= k <= len(answers):
        raise ValueError(f"k must be between 1 and the number of rollouts ({len(answers)})")
    return majorities(answers[:k], scores[:k])[-1]


def majorities(answers: Sequence[Hashable | None], scores: Sequence[float]) -> list[float]:
    """`majority_at_k` for k = 1, 2, …, n in one pass over the votes."""
    votes: dict[Hashable, int] = {}
    totals: dict[Hashable, float] = {}
    most, worth = 0, 0.0
    found = []
    for answer, score in zip(answers, scores, strict=True):
        if answer is not None:
            votes[answer] = votes.get(answer, 0) + 1
            totals[answer] = totals.get(answer, 0.0) + score
            most = max(most, votes[answer])
            means = [totals[a] / count for a, count in votes.items() if count == most]
            # summed in order of worth, so that who voted first does not show in a last digit
            worth = sum(sorted(means)) / len(means)
        found.append(worth)
    return found
