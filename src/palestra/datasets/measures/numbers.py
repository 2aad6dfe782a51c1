"""Count, mean, deviation and range of numbers, from sums that are exact."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_SCALE: Final = 1074
"""Every finite float is a whole multiple of 2 to the minus this: sums in that unit lose nothing."""
_LARGEST: Final = 1e300
"""Beyond it, a deviation might be no float."""
_ROOT_BITS: Final = 64
"""Binary places to which a deviation is taken."""


@dataclass(slots=True)
class Numbers:
    """Numbers that came by. They are not kept; sums are whole numbers of `2 ** -1074`."""

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: int = 0
    squares: int = 0

    def add(self, values: Iterable[float]) -> None:
        """Take `values`; those beyond 1e300 are no numbers here."""
        self.add_counted(Counter(values))

    def add_counted(self, counted: Mapping[float, int]) -> None:
        """Take values, each as many times as it says."""
        # Per denominator first: sums of small numbers are made much faster than those of large ones.
        totals: dict[int, int] = {}
        squares: dict[int, int] = {}
        taken = []
        for value, times in counted.items():
            if not -_LARGEST <= value <= _LARGEST:
                continue
            taken.append(value)
            self.count += times
            top, bottom = value.as_integer_ratio()
            totals[bottom] = totals.get(bottom, 0) + times * top
            squares[bottom] = squares.get(bottom, 0) + times * top * top
        for bottom, total in totals.items():
            shift = _SCALE + 1 - bottom.bit_length()
            self.total += total << shift
            self.squares += squares[bottom] << (2 * shift)
        if taken:
            self.low = min(self.low, *taken)
            self.high = max(self.high, *taken)

    def merge(self, other: "Numbers") -> None:
        """Take all that `other` has taken."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    @property
    def average(self) -> float:
        """The mean; 0 of nothing."""
        return self.total / (self.count << _SCALE) if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The sample standard deviation; 0 of fewer than two."""
        if self.count < 2:
            return 0.0
        above = self.count * self.squares - self.total * self.total
        below = self.count * (self.count - 1) << (2 * _SCALE)
        return math.isqrt((above << 2 * _ROOT_BITS) // below) / (1 << _ROOT_BITS)

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
