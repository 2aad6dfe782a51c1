"""Count, mean, deviation and range of numbers that come by."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_LARGEST: Final = 1e140
"""Beyond it, a squared deviation might be no float."""


@dataclass(slots=True)
class Numbers:
    """Numbers that came by. They are not kept.

    Sums of squared deviations are put together as Chan, Golub and LeVeque (1979) do it: no digits
    are lost where the mean is much larger than the deviation.
    """

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    average: float = 0.0
    """The mean; 0 of nothing."""
    squares: float = 0.0
    """The sum of squared deviations from the mean."""

    def add(self, values: Iterable[float]) -> None:
        """Take `values`; those beyond 1e140, infinite ones included, are no numbers here."""
        taken = [value for value in values if -_LARGEST <= value <= _LARGEST]
        if taken:
            mean = math.fsum(taken) / len(taken)
            squares = math.fsum((value - mean) * (value - mean) for value in taken)
            self.merge(Numbers(len(taken), min(taken), max(taken), mean, squares))

    def merge(self, other: "Numbers") -> None:
        """Take all that `other` has taken."""
        if not other.count:
            return
        count = self.count + other.count
        apart = other.average - self.average
        self.squares += other.squares + apart * apart * self.count * other.count / count
        self.average += apart * other.count / count
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.count = count

    @property
    def deviation(self) -> float:
        """The sample standard deviation; 0 of fewer than two."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    def summary(self) -> dict[str, float]:
        """As metrics files hold it, rounded."""
        low, high = (self.low, self.high) if self.count else (0.0, 0.0)
        return {
            "Total # non-null values": self.count,
            "Average": rounded(self.average),
            "Min": rounded(float(low)),
            "Max": rounded(float(high)),
            "Standard deviation": rounded(self.deviation),
        }


def rounded(value: float) -> float:
    """To 2 places from 1 on, to 3 below."""
    return round(value, 2 if abs(value) >= 1 else 3)
