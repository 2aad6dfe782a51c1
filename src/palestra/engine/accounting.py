"""The accounting identity: requested = the sum of how rollouts ended."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from palestra.engine.ending import ScoredEnding
from palestra.errors import Outcome, PalestraError

MOST_NAMED = 3
"""Kinds of tool failures that the line names; the rows have them all."""


class AccountingError(PalestraError):
    """Requested and ended do not add up: a bug of ours, never the user's."""


def truncated_and_empty(truncated: int, empty: int) -> str:
    """`, 2 of them truncated, 3 of them empty answers`; what there is none of is left out."""
    counts = ((truncated, "truncated"), (empty, "empty answers"))
    return "".join(f", {count} of them {what}" for count, what in counts if count)


@dataclass(slots=True)
class Accounting:
    """Counts of one collection, this session's and any earlier one's it resumed."""

    requested: int
    ended: Counter[Outcome] = field(default_factory=Counter)
    reward_sum: float = 0.0
    output_tokens: int = 0
    retried_attempts: int = 0
    """Failed attempts that were followed by another one."""
    tool_failures: Counter[str] = field(default_factory=Counter)
    """Tool calls of scored rollouts that ended in an exception nobody meant, by tool and type."""
    with_tool_failures: int = 0
    """Scored rollouts that had such calls."""
    empty_answers: int = 0
    """Scored rollouts in which the model said nothing: neither text nor a call of a tool."""

    def score(self, ending: ScoredEnding) -> None:
        """A rollout ended with a reward."""
        self.empty_answers += ending.empty
        self.note_broken(ending.broken_tools)
        self.ended[ending.outcome] += 1
        self.reward_sum += ending.reward
        self.output_tokens += ending.output_tokens

    def note_broken(self, tools: Sequence[str]) -> None:
        """The calls of tools that broke in one scored rollout."""
        if tools:
            self.tool_failures.update(tools)
            self.with_tool_failures += 1

    def fail(self, outcome: Outcome) -> None:
        """A rollout ended without one."""
        self.ended[outcome] += 1

    @property
    def scored(self) -> int:
        """Rollouts with a reward."""
        return sum(count for outcome, count in self.ended.items() if outcome.has_reward)

    @property
    def failed(self) -> int:
        """Rollouts that ended without a reward."""
        return sum(count for outcome, count in self.ended.items() if not outcome.has_reward)

    @property
    def remaining(self) -> int:
        """Rollouts that have not ended: none at the end of a complete run."""
        return self.requested - self.scored - self.failed

    @property
    def coverage(self) -> float:
        """Scored over requested, 0 to 1; 1 when nothing was requested."""
        return self.scored / self.requested if self.requested else 1.0

    @property
    def mean_reward(self) -> float | None:
        """Over scored rollouts only; None without any."""
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
        """`requested 100 = scored 96 + failed 4 (timeout 3, infra_error 1)`."""
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
        """`, 3 of them with tool failures (look_up: KeyError 5)`."""
        if not self.with_tool_failures:
            return ""
        kinds = self.tool_failures.most_common(MOST_NAMED)
        kinds_text = ", ".join(f"{what} {count}" for what, count in kinds)
        ellipsis = ", …" if len(self.tool_failures) > MOST_NAMED else ""
        return f", {self.with_tool_failures} of them with tool failures ({kinds_text}{ellipsis})"
