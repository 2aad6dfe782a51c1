"""One field of the rows: texts are counted, numbers summed up, lists flattened."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from xxhash import xxh3_64_intdigest

from palestra.datasets.measures.digests import Digests, Uniques, as_array
from palestra.datasets.measures.numbers import Numbers
from palestra.schema import JsonDict

_NUMBERS: Final = frozenset({int, float, bool})


class Texts:
    """How many texts came by, and how many different ones."""

    __slots__ = ("count", "uniques")

    def __init__(self) -> None:
        self.count = 0
        self.uniques = Uniques()

    def add(self, texts: Iterable[str]) -> None:
        """Take texts."""
        self.add_digests(as_array(map(xxh3_64_intdigest, map(str.encode, texts))))

    def add_digests(self, digests: Digests) -> None:
        """Take texts of which only the digests are known."""
        self.count += len(digests)
        self.uniques.add(digests)

    def merge(self, other: "Texts") -> None:
        """Take all that `other` has taken."""
        self.count += other.count
        self.uniques.merge(other.uniques)

    def summary(self) -> dict[str, int]:
        """As metrics files hold it."""
        return {"unique_count": len(self.uniques), "total_count": self.count}


class Field:
    """The values of one field over all rows. Objects, and lists within lists, are left out."""

    __slots__ = ("numbers", "texts")

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.texts = Texts()

    def add(self, values: Sequence[Any]) -> None:
        """Take what the field holds in some rows."""
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

    def merge(self, other: "Field") -> None:
        """Take all that `other` has taken."""
        self.numbers.merge(other.numbers)
        self.texts.merge(other.texts)

    def __bool__(self) -> bool:
        """Whether there is anything to say of it."""
        return bool(self.texts.count or self.numbers.count)

    def summary(self) -> JsonDict:
        """As metrics files hold it: of a field with any text, its texts."""
        return self.texts.summary() if self.texts.count else self.numbers.summary()
