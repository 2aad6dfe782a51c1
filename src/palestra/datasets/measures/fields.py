"""Measures of one field of the rows. Texts are counted, numbers summarized (count, mean, deviation,
range), lists flattened.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from palestra.datasets.measures.digests import Digests, Uniques, as_array
from palestra.schema import JsonDict

_LARGEST: Final = 1e140
"""The largest absolute value that is measured. The squared deviation of a larger value could
overflow a float."""


@dataclass(slots=True)
class Numbers:
    """Running statistics of numbers; the numbers themselves are not kept.

    Sums of squared deviations are merged with the formula of Chan, Golub and LeVeque (1979), which
    loses no digits when the mean is much larger than the deviation.
    """

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    average: float = 0.0
    """The mean; 0 without values."""
    squares: float = 0.0
    """The sum of squared deviations from the mean."""

    def add(self, values: Iterable[float]) -> None:
        """Add `values`. Values beyond ±1e140, including infinities, are ignored."""
        fitting = [value for value in values if -_LARGEST <= value <= _LARGEST]
        if fitting:
            mean = math.fsum(fitting) / len(fitting)
            squares = math.fsum((value - mean) * (value - mean) for value in fitting)
            self.merge(Numbers(len(fitting), min(fitting), max(fitting), mean, squares))

    def merge(self, added: "Numbers") -> None:
        """Add the statistics of `added`."""
        if not added.count:
            return
        count = self.count + added.count
        apart = added.average - self.average
        self.squares += added.squares + apart * apart * self.count * added.count / count
        self.average += apart * added.count / count
        self.low, self.high = min(self.low, added.low), max(self.high, added.high)
        self.count = count

    @property
    def deviation(self) -> float:
        """The sample standard deviation; 0 for fewer than two values."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    def summary(self) -> dict[str, float]:
        """Return the statistics in the format of metrics files, rounded."""
        low, high = (self.low, self.high) if self.count else (0.0, 0.0)
        return {
            "Total # non-null values": self.count,
            "Average": rounded(self.average),
            "Min": rounded(float(low)),
            "Max": rounded(float(high)),
            "Standard deviation": rounded(self.deviation),
        }


def rounded(value: float) -> float:
    """Round to 2 decimal places from 1 on, and to 3 below 1."""
    return round(value, 2 if abs(value) >= 1 else 3)


_NUMBERS: Final = frozenset({int, float, bool})


class Texts:
    """The number of texts, and of different texts."""

    __slots__ = ("count", "uniques")

    def __init__(self) -> None:
        self.count = 0
        self.uniques = Uniques()

    def add(self, texts: Iterable[str]) -> None:
        """Add texts to the counts."""
        self.add_digests(as_array(map(hash, map(str.encode, texts))))

    def add_digests(self, digests: Digests) -> None:
        """Add texts that are given only by their digests."""
        self.count += len(digests)
        self.uniques.add(digests)

    def merge(self, added: "Texts") -> None:
        """Add the counts of `added`."""
        self.count += added.count
        self.uniques.merge(added.uniques)

    def summary(self) -> dict[str, int]:
        """Return the counts in the format of metrics files."""
        return {"unique_count": len(self.uniques), "total_count": self.count}


class Field:
    """Measures of one field's values over all rows. Objects, and lists inside lists, are ignored."""

    __slots__ = ("numbers", "texts")

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.texts = Texts()

    def add(self, values: Sequence[Any]) -> None:
        """Add the field's values from some rows."""
        kinds = set(map(type, values))
        if list in kinds:
            within = [leaf for value in values if type(value) is list for leaf in value]
            self._add(within, set(map(type, within)))
            values = [value for value in values if type(value) is not list]
        self._add(values, kinds)

    def _add(self, leaves: Sequence[Any], kinds: set[type]) -> None:
        if str in kinds:
            self.texts.add(leaves if kinds == {str} else [x for x in leaves if type(x) is str])
        if not kinds.isdisjoint(_NUMBERS):
            self.numbers.add([x for x in leaves if type(x) in _NUMBERS])

    def merge(self, added: "Field") -> None:
        """Add the measures of `added`."""
        self.numbers.merge(added.numbers)
        self.texts.merge(added.texts)

    def __bool__(self) -> bool:
        """Whether any text or number was added."""
        return bool(self.texts.count or self.numbers.count)

    def summary(self) -> JsonDict:
        """Return the measures in the format of metrics files: the text counts if any value is a
        text, else the number statistics.
        """
        return self.texts.summary() if self.texts.count else self.numbers.summary()
