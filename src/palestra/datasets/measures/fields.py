"""One field of the rows: texts are counted, numbers summed up, lists flattened."""

from collections.abc import Collection, Iterable
from typing import Any

from palestra.datasets.measures.digests import Digests, Uniques, as_array
from palestra.datasets.measures.numbers import Numbers


class Texts:
    """How many texts came by, and how many different ones."""

    __slots__ = ("count", "uniques")

    def __init__(self) -> None:
        self.count = 0
        self.uniques = Uniques()

    def add(self, texts: Collection[object]) -> None:
        """Take texts, or whatever else is hashable and as equal as they are."""
        self.add_digests(as_array(map(hash, texts)))

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

    def add(self, values: Iterable[Any]) -> None:
        """Take what the field holds in some rows."""
        texts: list[str] = []
        numbers: list[float] = []
        for value in values:
            kind = type(value)
            if kind is str:
                texts.append(value)
            elif kind is list:
                texts += [leaf for leaf in value if type(leaf) is str]
                numbers += [leaf for leaf in value if isinstance(leaf, int | float)]
            elif isinstance(value, int | float):
                numbers.append(value)
        if texts:
            self.texts.add(texts)
        if numbers:
            self.numbers.add(numbers)

    def merge(self, other: "Field") -> None:
        """Take all that `other` has taken."""
        self.numbers.merge(other.numbers)
        self.texts.merge(other.texts)

    def __bool__(self) -> bool:
        """Whether there is anything to say of it."""
        return bool(self.texts.count or self.numbers.count)

    def summary(self) -> dict[str, Any]:
        """As metrics files hold it: of a field with any text, its texts."""
        return self.texts.summary() if self.texts.count else self.numbers.summary()
