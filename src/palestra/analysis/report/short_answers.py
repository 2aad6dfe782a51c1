"""What a run says of solved answers that are far shorter than the others. Does no I/O."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.facts import ENOUGH_ROLLOUTS
from palestra.analysis.task_rows import LENGTH_FIELD
from palestra.metrics import IntArray, is_solved

SHARE_OF_MEDIAN = 0.1
MOST_TOKENS = 50
FEWEST = 3


@dataclass(frozen=True, slots=True)
class ShortAnswers:
    """Solved answers that are far shorter than the other solved ones.

    An answer is short when it is solved and has fewer output tokens than a tenth of the median of the
    solved ones, and fewer than 50. The median makes a run silent whose answers are all short; the
    50 tokens, one whose answers are only of very different lengths. Fewer than 3 short answers, or
    fewer than ENOUGH_ROLLOUTS solved ones, say nothing.
    """

    rollouts: IntArray
    """Their positions in the frame."""
    longest: int
    """The number of output tokens of the longest. Every solved answer of at most so many is one."""
    lowest_reward: float
    """The lowest of their rewards."""
    median: float
    """Of all solved answers."""

    @classmethod
    def of(cls, frame: RunFrame) -> Self | None:
        """Return the short answers of a run; None when they say nothing."""
        tokens = frame.rollouts.columns.values.get(LENGTH_FIELD)
        if tokens is None:
            return None
        solved = is_solved(frame.rollouts.reward) & ~np.isnan(tokens)
        if int(np.sum(solved)) < ENOUGH_ROLLOUTS:
            return None
        median = float(np.median(tokens[solved]))
        short = solved & (tokens < min(median * SHARE_OF_MEDIAN, MOST_TOKENS))
        rollouts = np.flatnonzero(short)
        if len(rollouts) < FEWEST:
            return None
        lowest_reward = float(frame.rollouts.reward[rollouts].min())
        return cls(rollouts, int(tokens[rollouts].max()), lowest_reward, median)
