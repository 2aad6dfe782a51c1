"""The changes of a re-verification: counts, means, pairs of old and new reward, and the first
changed rows.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

from palestra.rollouts.reverification.stored import StoredRow
from palestra.schema import JsonDict

MOST_PAIRS = 1000
"""The maximum number of different (old, new) reward pairs that are counted separately. Continuous
rewards have too many."""
SHOWN_PAIRS = 10
SHOWN_ROWS = 10
TOLERANCE = 1e-9
"""The largest difference at which two rewards count as equal, because JSON and other libraries
round differently."""


@dataclass(slots=True)
class RewardChanges:
    """The rows of one environment, comparing old and new rewards."""

    unchanged: int = 0
    changed: int = 0
    no_previous: int = 0
    failed: int = 0
    before: float = 0.0
    """The sum of old rewards, over rows with an old and a new reward."""
    after: float = 0.0
    """The sum of new rewards, over the same rows as `before`."""
    first_time: float = 0.0
    """The sum of new rewards, over rows without an old reward."""
    pairs: Counter[tuple[float, float]] = field(default_factory=Counter)
    other_pairs: int = 0

    def add(self, before: float | None, after: float) -> bool:
        """Count one verified row. Return whether its reward has changed."""
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
        """The number of rows with a new reward."""
        return self.unchanged + self.changed + self.no_previous

    def as_json(self) -> JsonDict:
        """Return the counts and means as JSON, for machines and for the printed table."""
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
    """The changes of a re-verification, by environment."""

    by_environment: dict[str, RewardChanges] = field(default_factory=dict)
    first: list[JsonDict] = field(default_factory=list)
    differing: int = 0
    """The number of rows in which today's environment says something else than the model saw."""
    first_differing: str = ""
    """The place of the first of these rows."""

    def verified(self, row: StoredRow, reward: float) -> None:
        """Count a row that got a new reward."""
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

    def conversation_differs(self, row: StoredRow) -> None:
        """Count a row whose user or tool says something else today, or that ends elsewhere."""
        self.first_differing = self.first_differing or row.place()
        self.differing += 1

    def failed(self, row: StoredRow) -> None:
        """Count a row that could not be verified."""
        self._of(row).failed += 1

    def _of(self, row: StoredRow) -> RewardChanges:
        return self.by_environment.setdefault(row.server, RewardChanges())

    def as_json(self) -> JsonDict:
        """Return the changes of each environment, and the first rows whose reward changed."""
        environments = sorted(self.by_environment.items())
        return {
            "environments": {name: changes.as_json() for name, changes in environments},
            "first_changed": self.first,
            "conversation_differs": self.differing,
            "first_conversation_differs": self.first_differing or None,
        }
