"""What a run says of answers that were cut off at a limit: whether more tokens would help.

Does no I/O.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.facts import ENOUGH_ROLLOUTS
from palestra.analysis.task_rows import LENGTH_FIELD
from palestra.metrics import BoolArray, FloatArray, is_solved

SHARE_NEAR_LIMIT = 0.1
"""From this share of long answers among the solved on, a higher limit may help."""
NEAR_ONE_LIMIT = 0.05
"""The lengths of cut answers agree with one limit when nine in ten are this close to the longest,
as a share of it."""


@dataclass(frozen=True, slots=True)
class CutAnswers:
    """The answers that were cut off at a limit on tokens or context, against the complete ones."""

    count: int
    solved: int
    """How many have the reward 1 all the same."""
    mean_reward: float
    complete_mean_reward: float | None
    """None when every answer was cut."""
    run_mean_reward: float
    best_mean_reward: float | None
    """The mean reward of the run if every cut answer had the reward 1; None for rewards other than
    0 and 1.
    """
    length: float | None
    """The median number of output tokens of a cut answer; None when rows have no token counts."""
    shortest: float | None
    longest: float | None
    is_one_limit: bool
    """Whether the lengths agree with one limit on output tokens."""
    solved_near_limit: float | None
    """The share of the solved complete answers that are longer than half of `length`; None with
    fewer than ENOUGH_ROLLOUTS such answers.
    """

    @property
    def more_tokens_help(self) -> bool | None:
        """Whether solved answers come near the limit. None: too few answers say it, or the cut ones
        have no limit in common.
        """
        share = self.solved_near_limit
        return None if share is None or not self.is_one_limit else share >= SHARE_NEAR_LIMIT

    @classmethod
    def of(cls, frame: RunFrame, *, binary: bool) -> Self | None:
        """Return what the run says of its cut answers; None when no answer was cut."""
        cut, reward = frame.endings.truncated, frame.rollouts.reward
        if not cut.any():
            return None
        complete = reward[~cut]
        tokens = frame.rollouts.columns.values.get(LENGTH_FIELD)
        length, near = _lengths(tokens, cut, reward)
        lengths = np.empty(0) if tokens is None else tokens[cut & ~np.isnan(tokens)]
        return cls(
            count=int(np.sum(cut)),
            solved=int(np.sum(is_solved(reward[cut]))),
            mean_reward=float(np.mean(reward[cut])),
            complete_mean_reward=float(np.mean(complete)) if len(complete) else None,
            run_mean_reward=float(np.mean(reward)),
            best_mean_reward=float(np.mean(np.where(cut, 1.0, reward))) if binary else None,
            length=length,
            shortest=float(lengths.min()) if len(lengths) else None,
            longest=float(lengths.max()) if len(lengths) else None,
            is_one_limit=len(lengths) > 0
            and bool(np.quantile(lengths, 0.1) >= (1 - NEAR_ONE_LIMIT) * lengths.max()),
            solved_near_limit=near,
        )


def _lengths(
    tokens: FloatArray | None, cut: BoolArray, reward: FloatArray
) -> tuple[float | None, float | None]:
    """Return `CutAnswers.length` and `CutAnswers.solved_near_limit`."""
    if tokens is None or np.isnan(tokens[cut]).all():
        return None, None
    length = float(np.nanmedian(tokens[cut]))
    solved = tokens[~cut & is_solved(reward) & ~np.isnan(tokens)]
    if len(solved) < ENOUGH_ROLLOUTS:
        return length, None
    return length, float(np.mean(solved > length / 2))
