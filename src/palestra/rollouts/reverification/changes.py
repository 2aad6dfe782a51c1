"""What verifying again has changed: counts, means, which rewards became which, the first rows."""

import math
from collections import Counter
from dataclasses import dataclass, field

from palestra.rollouts.reverification.stored import StoredRow
from palestra.schema import JsonDict

MOST_PAIRS = 1000
"""Different pairs of rewards that are counted one by one; a continuous reward has too many."""
SHOWN_PAIRS = 10
SHOWN_ROWS = 10
TOLERANCE = 1e-9
"""Rewards closer than this are the same: JSON and other libraries round differently."""


@dataclass(slots=True)
class RewardChanges:
    """The rows of one environment, old reward against new."""

    unchanged: int = 0
    changed: int = 0
    no_previous: int = 0
    failed: int = 0
    before: float = 0.0
    """Sum of the old rewards of rows that have both."""
    after: float = 0.0
    """Sum of the new rewards of the same rows."""
    first_time: float = 0.0
    """Sum of the rewards of rows that had none."""
    pairs: Counter[tuple[float, float]] = field(default_factory=Counter)
    other_pairs: int = 0

    def add(self, before: float | None, after: float) -> bool:
        """Count one verified row; whether its reward has changed."""
        if before is None:
            self.no_previous += 1
            self.first_time += after
            return False
        self.before += before
        self.after += after
        if math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            self.unchanged += 1
            return False
        self.changed += 1
        if len(self.pairs) < MOST_PAIRS or (before, after) in self.pairs:
            self.pairs[before, after] += 1
        else:
            self.other_pairs += 1
        return True

    @property
    def verified(self) -> int:
        """Rows with a new reward."""
        return self.unchanged + self.changed + self.no_previous

    def as_json(self) -> JsonDict:
        """For machines, and for the table."""
        both = self.unchanged + self.changed
        commonest = sorted(self.pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN_PAIRS]
        listed = sum(count for _, count in commonest)
        return {
            "rows": self.verified + self.failed,
            "verified": self.verified,
            "unchanged": self.unchanged,
            "changed": self.changed,
            "no_previous": self.no_previous,
            "failed": self.failed,
            "mean_before": self.before / both if both else None,
            "mean_after": self.after / both if both else None,
            "mean_reward": (self.after + self.first_time) / self.verified
            if self.verified
            else None,
            "pairs": [
                {"before": old, "after": new, "rows": count} for (old, new), count in commonest
            ],
            "other_pairs": self.changed - listed,
        }


@dataclass(slots=True)
class Changes:
    """All rows of a re-verification, by environment."""

    by_environment: dict[str, RewardChanges] = field(default_factory=dict)
    first: list[JsonDict] = field(default_factory=list)

    def verified(self, row: StoredRow, reward: float) -> None:
        """A row got its new reward."""
        if self._of(row).add(row.previous, reward) and len(self.first) < SHOWN_ROWS:
            self.first.append(
                {
                    "line": row.line,
                    **row.identity(),
                    "environment": row.server,
                    "place": row.place(),
                    "before": row.previous,
                    "after": reward,
                }
            )

    def failed(self, row: StoredRow) -> None:
        """A row could not be verified."""
        self._of(row).failed += 1

    def _of(self, row: StoredRow) -> RewardChanges:
        return self.by_environment.setdefault(row.server, RewardChanges())

    def as_json(self) -> JsonDict:
        """Everything, by environment, with the first rows whose reward changed."""
        environments = sorted(self.by_environment.items())
        return {
            "environments": {name: changes.as_json() for name, changes in environments},
            "first_changed": self.first,
        }
