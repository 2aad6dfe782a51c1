"""The counts of a collection. They always satisfy: requested = the sum over all outcomes."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from palestra.engine.ending import ScoredEnding
from palestra.errors import Outcome, PalestraError
from palestra.schema import RolloutKey

MOST_NAMED = 3
"""The maximum number of kinds of tool failures in the summary line. The result rows contain all of
them."""


class AccountingError(PalestraError):
    """The number of ended rollouts does not equal the number of requested ones. This is a bug in
    Palestra, not a user error.
    """


def truncated_and_empty(truncated: int, empty: int) -> str:
    """Return text such as `, 2 of them truncated, 3 of them empty answers`. Zero counts are left
    out.
    """
    counts = ((truncated, "truncated"), (empty, "empty answers"))
    return "".join(f", {count} of them {what}" for count, what in counts if count)


@dataclass(slots=True)
class Accounting:
    """The counts of one collection, including the earlier sessions that it resumed."""

    requested: int
    ended: Counter[Outcome] = field(default_factory=Counter)
    reward_sum: float = 0.0
    output_tokens: int = 0
    retried_attempts: int = 0
    """The number of failed attempts that were followed by another attempt."""
    tool_failures: Counter[str] = field(default_factory=Counter)
    """The number of tool calls in scored rollouts that ended in an unexpected exception, by tool
    and exception type."""
    with_tool_failures: int = 0
    """The number of scored rollouts with at least one such tool failure."""
    empty_answers: int = 0
    """The number of scored rollouts in which the model returned neither text nor a tool call."""

    lowest_reward: float = math.inf
    """The lowest reward of the rollouts that were counted with their keys."""
    lowest: RolloutKey | None = None
    """The rollout that got it, the first to end of several; None without one."""
    highest_reward: float = -math.inf
    """The highest reward of the rollouts that were counted with their keys."""

    def score(self, ending: ScoredEnding, key: RolloutKey | None = None) -> None:
        """Count a rollout that ended with a reward."""
        if key is not None:
            self.highest_reward = max(self.highest_reward, ending.reward)
            if ending.reward < self.lowest_reward:
                self.lowest_reward, self.lowest = ending.reward, key
        self.empty_answers += ending.empty
        self.note_broken(ending.broken_tools)
        self.ended[ending.outcome] += 1
        self.reward_sum += ending.reward
        self.output_tokens += ending.output_tokens

    def note_broken(self, tools: Sequence[str]) -> None:
        """Count the tool calls that broke in one scored rollout."""
        if tools:
            self.tool_failures.update(tools)
            self.with_tool_failures += 1

    def fail(self, outcome: Outcome) -> None:
        """Count a rollout that ended without a reward."""
        self.ended[outcome] += 1

    @property
    def scored(self) -> int:
        """The number of rollouts with a reward."""
        return sum(count for outcome, count in self.ended.items() if outcome.has_reward)

    @property
    def failed(self) -> int:
        """The number of rollouts that ended without a reward."""
        return sum(count for outcome, count in self.ended.items() if not outcome.has_reward)

    @property
    def remaining(self) -> int:
        """The number of rollouts that have not ended yet; 0 at the end of a complete run."""
        return self.requested - self.scored - self.failed

    @property
    def coverage(self) -> float:
        """Scored rollouts divided by requested ones, from 0 to 1; 1 when none were requested."""
        return self.scored / self.requested if self.requested else 1.0

    @property
    def mean_reward(self) -> float | None:
        """The mean reward of scored rollouts; None when there are none."""
        return self.reward_sum / self.scored if self.scored else None

    def check(self) -> None:
        """Raise AccountingError unless every requested rollout ended exactly once."""
        if self.remaining != 0:
            raise AccountingError(
                f"requested {self.requested} rollouts, but {self.scored} scored and "
                f"{self.failed} failed: {self.remaining} unaccounted for",
                hint="this is a bug in Palestra; please report it with the run's files",
            )

    def line(self) -> str:
        """Return a one-line summary such as `requested 100 = scored 96 + failed 4 (timeout 3,
        infra_error 1)`.
        """
        kinds = ", ".join(
            f"{outcome.value} {count}"
            for outcome, count in sorted(self.ended.items())
            if not outcome.has_reward
        )
        cut = (
            truncated_and_empty(self.ended[Outcome.TRUNCATED], self.empty_answers)
            + self._broken_tools()
        )
        failed = f"failed {self.failed}" + (f" ({kinds})" if kinds else "")
        not_run = f" + not run {self.remaining}" if self.remaining else ""
        return f"requested {self.requested} = scored {self.scored}{cut} + {failed}{not_run}"

    def _broken_tools(self) -> str:
        """Return text such as `, 3 of them with tool failures (look_up: KeyError 5)`; empty without
        tool failures.
        """
        if not self.with_tool_failures:
            return ""
        kinds = self.tool_failures.most_common(MOST_NAMED)
        kinds_text = ", ".join(f"{what} {count}" for what, count in kinds)
        ellipsis = ", …" if len(self.tool_failures) > MOST_NAMED else ""
        return f", {self.with_tool_failures} of them with tool failures ({kinds_text}{ellipsis})"
