"""What was found in stored rollouts that were checked for being on policy."""

from collections import Counter
from dataclasses import dataclass, field

UNSEALED = "no seal: changes to the conversation cannot be seen"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one turn, counted from 0 in its rollout."""

    turn: int
    what: str


@dataclass(slots=True)
class Checked:
    """What was found in one rollout, or in many."""

    rollouts: int = 0
    turns: int = 0
    tokens: int = 0
    """Tokens generated."""
    continued: int = 0
    """Turns whose prompt starts with exactly the ids before it."""
    broken: Counter[str] = field(default_factory=Counter)
    """Turns marked as broken, by reason."""
    truncated: int = 0
    """Turns that were never made, as the context was full."""
    unsealed: int = 0
    problems: list[Problem] = field(default_factory=list)
    rollouts_with_problems: int = 0

    @property
    def on_policy(self) -> bool:
        """Something was checked, all of it sealed: no problem, and no marked break."""
        return self.on_policy_but_for_seals and not self.unsealed

    @property
    def on_policy_but_for_seals(self) -> bool:
        """As `on_policy`, of rollouts whose turns need no seal."""
        return bool(self.rollouts) and not self.problems and not self.broken

    def add(self, other: "Checked") -> None:
        """Take in what was found elsewhere."""
        self.rollouts += other.rollouts
        self.turns += other.turns
        self.tokens += other.tokens
        self.continued += other.continued
        self.broken += other.broken
        self.truncated += other.truncated
        self.unsealed += other.unsealed
        self.problems += other.problems
        self.rollouts_with_problems += other.rollouts_with_problems

    def lines(self) -> list[str]:
        """For people."""
        marked = sum(self.broken.values())
        total = (
            f"{self.rollouts} rollouts, {self.turns} turns, {self.tokens} tokens generated: "
            f"{self.continued} later turns start with exactly the ids before them, "
            f"{marked} are marked as broken, {self.truncated} were never made as the context was "
            f"full, {self.unsealed} carry no seal, {self.rollouts_with_problems} rollouts have "
            "problems"
        )
        said = [total]
        said += [f"  marked {count} times: {reason}" for reason, count in self.broken.most_common()]
        if self.unsealed:
            said.append(f"  {self.unsealed} times {UNSEALED}")
        kinds = Counter(problem.what.partition(":")[0] for problem in self.problems)
        for kind, count in kinds.most_common():
            example = next(p for p in self.problems if p.what.startswith(kind))
            said.append(
                f"  {count} times: {kind}; the first in turn {example.turn}: {example.what}"
            )
        return said
