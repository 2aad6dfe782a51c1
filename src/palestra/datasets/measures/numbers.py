"""Count, mean, deviation and range of numbers, from sums that are exact."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import mul
from typing import Final

_SCALE: Final = 1074
"""Every finite float is a whole multiple of 2 to the minus this: sums in that unit lose nothing."""
_LARGEST: Final = 1e300
"""Beyond it, a deviation might be no float."""
_SMALL: Final = 1 << 40
"""Whole numbers below it are summed up faster."""
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
        held = list(values)
        if set(map(type, held)) == {int} and min(held) > -_SMALL and max(held) < _SMALL:
            self._add_sums(len(held), min(held), max(held), {1: (int(sum(held)), _squares(held))})
        else:
            self.add_counted(Counter(held))

    def add_counted(self, counted: Mapping[float, int]) -> None:
        """Take values, each as many times as it says."""
        # Per denominator first: sums of small numbers are made much faster than those of large ones.
        sums: dict[int, tuple[int, int]] = {}
        taken = {n: times for n, times in counted.items() if -_LARGEST <= n <= _LARGEST}
        for value, times in taken.items():
            top, bottom = value.as_integer_ratio()
            total, squares = sums.get(bottom, (0, 0))
            part = times * top
            sums[bottom] = total + part, squares + part * top
        if taken:
            self._add_sums(sum(taken.values()), min(taken), max(taken), sums)

    def _add_sums(
        self, count: int, low: float, high: float, sums: Mapping[int, tuple[int, int]]
    ) -> None:
        """`sums`: denominator -> sum of numerators, and of their squares."""
        self.count += count
        self.low = min(self.low, low)
        self.high = max(self.high, high)
        for bottom, (total, squares) in sums.items():
            shift = _SCALE + 1 - bottom.bit_length()
            self.total += total << shift
            self.squares += squares << (2 * shift)

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


def _squares(values: list[float]) -> int:
    return int(sum(map(mul, values, values)))


def rounded(value: float) -> float:
    """To 2 places from 1 on, to 3 below."""
    return round(value, 2 if abs(value) >= 1 else 3)
