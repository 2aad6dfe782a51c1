"""What a vote among k answers is worth."""

from collections import Counter
from collections.abc import Hashable, Sequence


def majority_at_k(
    answers: Sequence[Hashable | None], scores: Sequence[float], k: int | None = None
) -> float:
    """Expected score of the answer that the first k rollouts vote for; all of them by default.

    Votes are counted on (answer, score), so one answer scored both ways stands as two
    candidates; candidates that tie share the win; a rollout without an answer (None) does not
    vote, and if nobody votes the score is 0. For k = n this is exact; for k < n it looks at the
    first k rollouts only, as the field does.
    """
    if k is None:
        k = len(answers)
    if not 1 <= k <= len(answers):
        raise ValueError(f"k must be between 1 and the number of rollouts ({len(answers)})")
    ballots = zip(answers[:k], scores[:k], strict=True)
    votes = Counter((answer, score) for answer, score in ballots if answer is not None)
    if not votes:
        return 0.0
    most = max(votes.values())
    winners = sorted(score for (_, score), count in votes.items() if count == most)
    return sum(winners) / len(winners)
