"""Bounds of an examination."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the examination; times in seconds."""

    timeout_s: float = 60.0
    """For one answer."""
    repeats: int = 3
    """How often the same answer is verified."""
    blocked_s: float = 0.1
    """For how long an ordinary answer may hold the event loop."""
    blocked_by_hostile_s: float = 0.5
    """For how long a hostile one may."""
    hostile_s: float = 120.0
    """For all hostile answers together; what is left then is not tried."""
    largest: int = 1_000_000
    """Characters of the largest hostile text."""
    frozen_s: float = 20.0
    """After so long the rest is given up: the loop may never come back."""

    @property
    def given_up_after_s(self) -> float:
        """The same, and no longer than one answer may take and a second."""
        return min(self.frozen_s, self.timeout_s + 1.0)
