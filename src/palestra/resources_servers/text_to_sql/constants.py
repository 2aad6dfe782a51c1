"""Find the constants in a query: values compared with columns, and its uses of NULL, case and now.

A variant of a database shows the difference between `> 5` and `>= 5` only if the column contains a
5. So constants are read together with their columns, one comparison at a time: `WHERE city =
'Porto' AND pages > 200` has two comparisons. A query is read by tokens, without a grammar. A missed
constant makes variants find fewer differences, but never makes a result wrong.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from palestra.resources_servers.text_to_sql.values import Number

MOST_CONSTANTS = 50
"""The most constants of one kind that are kept from a comparison."""
LONGEST_TEXT = 200

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*"|`[^`]*`|\[[^\[\]]*\])
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\d+(?:\.\d+)?(?![\w.]))
    |(?P<mark><=|>=|<>|!=|==|[<>=(),])
    """,
    re.VERBOSE | re.DOTALL,
)
_BETWEEN: Final = """
    and or where having on when then else end case select from group order limit offset join union
    except intersect
"""
_BETWEEN_COMPARISONS: Final = frozenset(_BETWEEN.split())
_COMPARES = frozenset(
    ["=", "==", "<>", "!=", "<", ">", "<=", ">=", "in", "is", "like", "glob", "between"]
)
_NOW = re.compile(
    r"'now'|\bcurrent_(?:date|time|timestamp)\b|\b(?:date|datetime)\(\)", re.IGNORECASE
)
_CASE = re.compile(r"\bcollate\s+nocase\b|\b(?:lower|upper)\s*\(", re.IGNORECASE)
_OUTER_JOIN = re.compile(r"\b(?:left|right|full)\s+(?:outer\s+)?join\b", re.IGNORECASE)
_USING = re.compile(r"\busing\s*\(([^()]*)\)", re.IGNORECASE)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


@dataclass(slots=True)
class ColumnComparison:
    """One comparison in a query: its columns and constants."""

    columns: set[str] = field(default_factory=set)
    """The column names, in lower case and without the table."""
    numbers: list[Number] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    """Texts that match a pattern with a wildcard."""
    marks: set[str] = field(default_factory=set)
    calls: bool = False
    """Whether the comparison calls a function."""

    @property
    def is_exact(self) -> bool:
        """Whether its patterns are case-sensitive."""
        return "glob" in self.marks


@dataclass(frozen=True, slots=True)
class Spoken:
    """The comparisons of a query, and whether it depends on the time or on letter case."""

    comparisons: tuple[ColumnComparison, ...]
    now: bool
    letter_case: bool
    """Whether the query ignores letter case in a comparison, or changes the case of a text."""

    paired: frozenset[str] = frozenset()
    """Columns that pair rows in an outer join. There, `IS NULL` finds rows without a partner."""

    def numbers(self, column: str) -> list[Number]:
        """Return the numbers that a column is compared with."""
        return [number for comparison in self._of(column) for number in comparison.numbers]

    def texts(self, column: str) -> list[str]:
        """Return the texts that a column itself is compared with as a whole."""
        return [
            text
            for comparison in self._of(column)
            if not comparison.calls
            for text in comparison.texts
        ]

    def likes(self, column: str) -> list[str]:
        """Return texts that match a LIKE pattern, which ignores letter case."""
        return [
            text
            for comparison in self._of(column)
            if not comparison.is_exact
            for text in comparison.patterns
        ]

    def parts(self, column: str) -> list[str]:
        """Return texts that match a GLOB pattern, or that a function of the column is compared
        with.
        """
        return [
            text
            for comparison in self._of(column)
            for text in (
                *(comparison.patterns if comparison.is_exact else ()),
                *(comparison.texts if comparison.calls else ()),
            )
        ]

    def joined(self) -> frozenset[frozenset[str]]:
        """Return the pairs of columns, by name, that the query requires to be equal."""
        return frozenset(
            frozenset(comparison.columns)
            for comparison in self.comparisons
            if comparison.marks & {"=", "=="}
            and len(comparison.columns) == 2
            and not comparison.calls
        )

    def compares(self, column: str) -> bool:
        """Whether a column is compared with anything."""
        return any(True for _ in self._of(column))

    def null(self, column: str) -> bool:
        """Whether the query tests if a column is NULL in the column's own table."""
        return column.lower() not in self.paired and any(
            {"is", "null"} <= comparison.marks for comparison in self._of(column)
        )

    def all_numbers(self) -> list[Number]:
        """Return all numbers in comparisons."""
        return [number for comparison in self.comparisons for number in comparison.numbers]

    def all_texts(self) -> list[str]:
        """Return all texts and patterns in comparisons."""
        return [
            text
            for comparison in self.comparisons
            for text in (*comparison.texts, *comparison.patterns)
        ]

    def _of(self, column: str) -> Iterator[ColumnComparison]:
        name = column.lower()
        return (
            comparison
            for comparison in self.comparisons
            if name in comparison.columns and comparison.marks & _COMPARES
        )


def spoken_of(query: str, columns: Collection[str]) -> Spoken:
    """Read the comparisons of a query about tables that have `columns`. Never raises."""
    known_columns = {name.lower() for name in columns}
    useful = [
        comparison
        for comparison in _comparisons(query, known_columns)
        if comparison.numbers or comparison.texts or comparison.marks
    ]
    bare = _COMMENT.sub(" ", query)
    paired = _paired(bare, useful) if _OUTER_JOIN.search(bare) else frozenset()
    return Spoken(tuple(useful), bool(_NOW.search(bare)), bool(_CASE.search(bare)), paired)


def _paired(query: str, comparisons: Collection[ColumnComparison]) -> frozenset[str]:
    """Return the columns that join tables, in lower case."""
    equated = (
        comparison.columns
        for comparison in comparisons
        if comparison.marks & {"=", "=="}
        and not (comparison.numbers or comparison.texts or comparison.calls)
    )
    pairs = (
        name.strip(' "`[]').lower() for using in _USING.findall(query) for name in using.split(",")
    )
    return frozenset().union(*equated, pairs)


def _comparisons(query: str, known_columns: set[str]) -> Iterator[ColumnComparison]:
    comparison, depth, between, is_named = ColumnComparison(), 0, False, False
    for match in _TOKEN.finditer(query):
        kind, token = match.lastgroup, match[0]
        word = token.lower() if kind in {"word", "mark"} else ""
        depth += (word == "(") - (word == ")")
        ends = word in _BETWEEN_COMPARISONS or (word == "," and depth <= 0)
        if ends and not (word == "and" and between):
            yield comparison
            comparison, depth = ColumnComparison(), 0
        between = word == "between" or (between and word != "and")
        comparison.calls |= word == "(" and is_named
        is_named = kind == "word" and word not in _COMPARES and not ends
        _take(comparison, kind, token, known_columns)
    yield comparison


def _take(
    comparison: ColumnComparison, kind: str | None, token: str, known_columns: set[str]
) -> None:
    """Add a token to its comparison."""
    word = token.lower()
    if kind == "number" and len(comparison.numbers) < MOST_CONSTANTS and len(token) < 16:
        comparison.numbers.append(float(token) if "." in token else int(token))
    elif kind == "text":
        _take_text(comparison, token[1:-1].replace("''", "'"))
    elif kind == "quoted":
        inside = token[1:-1].replace('""', '"')
        if inside.lower() in known_columns:
            comparison.columns.add(inside.lower())
        elif token[0] == '"':
            # SQLite takes a quoted name that is none for a text.
            _take_text(comparison, inside)
    elif word in known_columns:
        comparison.columns.add(word)
    elif word in _COMPARES or word == "null":
        comparison.marks.add(word)


def _take_text(comparison: ColumnComparison, text: str) -> None:
    if (
        len(text) > LONGEST_TEXT
        or len(comparison.texts) + len(comparison.patterns) >= MOST_CONSTANTS
    ):
        return
    if comparison.marks & {"like", "glob"} and set(text) & set("%_*?"):
        core = re.sub(r"[_?]", "a", re.sub(r"[%*]", "", text))
        comparison.patterns += [core, f"Q{core}", f"{core}q"] if core else []
    else:
        comparison.texts.append(text)
