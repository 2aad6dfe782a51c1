"""The tree of a query, and deciding it."""

import math
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, Final, TypeVar

from palestra.config import nearest
from palestra.errors import ConfigError

TEXT: Final = "text"
"""The field with all texts of a rollout."""
MANY: Final = frozenset({"tools", TEXT})
"""Fields with any number of values. A row never lacks them; it may have no value there."""
FAILED: Final = "failed"
"""As a value of `outcome`: every class of failure."""
_NOT_FAILED: Final = ("scored", "not ended")
"""The outcomes that are no failure."""
_SYNONYMS: Final = {"status": "outcome", "state": "outcome", "score": "reward", "error": "class"}
"""Fields that no row may have, and that people look for."""
_RANGE: Final = re.compile(r"\d+-\d+|.*\.\..*", re.ASCII)
"""A value that looks like a range of numbers, `0-3` or `a..b`, and is none. In a field of texts it may
be one of them."""
_EXACT: Final = 2**53
"""Whole numbers below it are exact as floating-point numbers."""
COMPARED: Final = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}

T = TypeVar("T")


class QueryError(ConfigError):
    """A query that cannot be read. `position`: the character where, from 1. `nearest`: the field
    that was probably meant; empty without one.
    """

    def __init__(
        self, text: str, position: int, reason: str, *, hint: str = "", nearest: str = ""
    ) -> None:
        super().__init__(
            f"the query {text!r} is wrong at character {position}: {reason}", hint=hint
        )
        self.position = position
        self.reason = reason
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class WordTerm:
    """A text that must occur. `whole_transcript`: everywhere; else in what the index holds.
    `is_exact`: with the same case.
    """

    text: str
    whole_transcript: bool = False
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class HasTerm:
    """The row has the field."""

    field: str
    position: int


@dataclass(frozen=True, slots=True)
class ComparedTerm:
    """A field against a value. `number`: the value as a number; None when it is a text, which is
    compared for equality only.
    """

    field: str
    position: int
    operator: str
    text: str
    number: float | None

    def of_number(self, value: Any) -> Any:
        """Compare a number, or an array of numbers. Another value than a number equals none."""
        operand = math.nan if self.number is None else self.number
        return COMPARED[self.operator](value, operand)

    @property
    def is_failed(self) -> bool:
        """Whether every outcome matches except `equal_texts`."""
        return self.field == "outcome" and self.text.lower() == FAILED

    @property
    def equal_texts(self) -> tuple[str, ...]:
        """The texts that a value is compared with, without case."""
        return _NOT_FAILED if self.is_failed else (self.text,)

    def of_text(self, value: str) -> bool:
        """Compare a text."""
        texts = {text.lower() for text in self.equal_texts}
        is_equal = (value.lower() in texts) != self.is_failed
        return is_equal if self.operator == "=" else self.operator == "!=" and not is_equal


@dataclass(frozen=True, slots=True)
class BetweenTerm:
    """A number in a range, ends included; None for an open end."""

    field: str
    position: int
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ContainsTerm:
    """A text that contains a part."""

    field: str
    position: int
    part: str


Condition = HasTerm | ComparedTerm | BetweenTerm | ContainsTerm
"""A leaf that names a field."""


@dataclass(frozen=True, slots=True)
class AllTerms:
    """Every term matches."""

    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class AnyTerm:
    """At least one term matches."""

    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class NotTerm:
    """The term does not match."""

    term: "Node"


Node = AllTerms | AnyTerm | NotTerm | WordTerm | Condition
Truth = tuple[T, T]
"""Whether something is true, and whether it is false; neither when a row lacks the field."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was read. `tree`: None for one that matches every row."""

    text: str
    tree: Node | None
    sort: str = ""
    """The field to sort by, with `-` for the largest first; empty without `sort:`."""
    sort_position: int = 0

    def leaves(self) -> Iterator[WordTerm | Condition]:
        """Yield the words and conditions, from left to right."""
        waiting = [self.tree] if self.tree is not None else []
        while waiting:
            node = waiting.pop()
            if isinstance(node, AllTerms | AnyTerm):
                waiting.extend(reversed(node.terms))
            elif isinstance(node, NotTerm):
                waiting.append(node.term)
            else:
                yield node

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to look for in whole transcripts."""
        leaves = self.leaves()
        return tuple(x.text for x in leaves if isinstance(x, WordTerm) and x.whole_transcript)

    def check_fields(self, names: Sequence[str]) -> None:
        """Raise QueryError, with the nearest name: the query names a field that is not in `names`."""
        used = [
            (leaf.field, leaf.position) for leaf in self.leaves() if not isinstance(leaf, WordTerm)
        ]
        if self.sort:
            used.append((self.sort.removeprefix("-"), self.sort_position))
        for name, position in used:
            if name not in names:
                near = _likely_field(name, names)
                raise QueryError(
                    self.text,
                    position,
                    f"there is no field {name!r}" + (f"; did you mean {near!r}?" if near else ""),
                    hint=f"the fields: {', '.join(names)}",
                    nearest=near,
                )

    def text_terms(self) -> Iterator[ComparedTerm]:
        """Yield the terms whose value is no number, such as `task:0-3` and `outcome:scored`."""
        for leaf in self.leaves():
            if isinstance(leaf, ComparedTerm) and leaf.number is None:
                yield leaf

    def check_numbers(self, numbers: Container[str]) -> None:
        """Raise QueryError: a term such as `task:0-3` or `task:abc` has a field of `numbers`."""
        for leaf in self.text_terms():
            if leaf.field in numbers:
                raise QueryError(
                    self.text,
                    leaf.position,
                    f"{leaf.field} is a number, and {leaf.text!r} is none",
                    hint=_number_instead(leaf),
                )


def _number_instead(term: ComparedTerm) -> str:
    """Return how to compare a field of numbers instead of with the text of a term."""
    if not _RANGE.fullmatch(term.text):
        return f"write a number, such as {term.field}:1; true is 1 and false is 0"
    bounds = "0..3" if ".." in term.text else term.text.replace("-", "..")
    return f"a range is written with dots between numbers: {term.field}:{bounds}"


def _likely_field(name: str, names: Sequence[str]) -> str:
    """Return the field that was probably meant; empty without one."""
    synonym = _SYNONYMS.get(name)
    if synonym in names:
        return synonym or ""
    inner = [field for field in names if field.endswith(f".{name}")]
    return inner[0] if len(inner) == 1 else nearest(name, names) or ""


def decide_query(node: Node, leaf: Callable[[WordTerm | Condition], Truth[Any]]) -> Truth[Any]:
    """Return whether a tree is true, and whether it is false. `leaf`: decides a leaf; it returns
    booleans, or arrays of booleans for many rows.
    """
    if isinstance(node, NotTerm):
        yes, no = decide_query(node.term, leaf)
        return no, yes
    if isinstance(node, AllTerms | AnyTerm):
        truths = [decide_query(term, leaf) for term in node.terms]
        for_yes, for_no = (and_, or_) if isinstance(node, AllTerms) else (or_, and_)
        return (
            reduce(for_yes, (yes for yes, _ in truths)),
            reduce(for_no, (no for _, no in truths)),
        )
    return leaf(node)


Fields = Callable[[str], Sequence[Any]]
"""Returns the values of a field of one row; none when it lacks the field."""


def matches_query(query: Query, fields: Fields) -> bool:
    """Whether one row matches. Words are looked for in the field `text`."""
    if query.tree is None:
        return True
    yes, _ = decide_query(query.tree, lambda leaf: _of_row(leaf, fields))
    return bool(yes)


def _of_row(leaf: WordTerm | Condition, fields: Fields) -> Truth[bool]:
    name = TEXT if isinstance(leaf, WordTerm) else leaf.field
    values = fields(name)
    if isinstance(leaf, HasTerm):
        return bool(values), not values
    is_true = any(_of_value(leaf, value) for value in values)
    return is_true, not is_true and (bool(values) or name in MANY)


def _of_value(leaf: WordTerm | ComparedTerm | BetweenTerm | ContainsTerm, value: Any) -> bool:
    if isinstance(leaf, WordTerm | ContainsTerm):
        part = leaf.text if isinstance(leaf, WordTerm) else leaf.part
        if isinstance(leaf, WordTerm) and leaf.is_exact:
            return part in _as_text(value)
        return part.lower() in _as_text(value).lower()
    if isinstance(value, bool | int | float):
        if isinstance(leaf, BetweenTerm):
            return (leaf.low is None or value >= leaf.low) and (
                leaf.high is None or value <= leaf.high
            )
        return leaf.operator == "!=" if leaf.number is None else bool(leaf.of_number(value))
    return isinstance(leaf, ComparedTerm) and leaf.of_text(str(value))


def _as_text(value: Any) -> str:
    return number_text(value) if isinstance(value, float) else str(value)


def number_text(value: float) -> str:
    """Return a number as `field~part` reads it: a whole one without a point."""
    is_whole = value.is_integer() and abs(value) < _EXACT
    return str(int(value)) if is_whole else repr(value)
