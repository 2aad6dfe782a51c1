"""What two queries speak of: the constants that they compare columns with, NULL, case and now.

A variant of a database shows the difference between `> 5` and `>= 5` where a 5 is in that column.
So the constants are read with the columns that they stand beside, in a comparison each:
`WHERE city = 'Porto' AND pages > 200` has two. Reading is by tokens, not by grammar: what it
misses makes variants less telling, never wrong.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from palestra.resources_servers.text_to_sql.values import Number

MOST_CONSTANTS = 50
"""Of one query and kind; the others are left out."""
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
    """One comparison of a query: what it names, and the constants in it."""

    columns: set[str] = field(default_factory=set)
    """In lower case, without the table."""
    numbers: list[Number] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    """Texts that match one with a wildcard."""
    marks: set[str] = field(default_factory=set)
    calls: bool = False
    """Whether a function is called in it."""

    @property
    def is_exact(self) -> bool:
        """Whether its patterns see letter case."""
        return "glob" in self.marks


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a query speaks of."""

    comparisons: tuple[ColumnComparison, ...]
    now: bool
    letter_case: bool
    """It compares without regard to case somewhere, or changes it."""

    paired: frozenset[str] = frozenset()
    """Columns by which an outer join pairs rows: `IS NULL` asks there for rows without a partner."""

    def numbers(self, column: str) -> list[Number]:
        """The numbers that a column is compared with."""
        return [number for one in self._of(column) for number in one.numbers]

    def texts(self, column: str) -> list[str]:
        """The texts that a column itself is compared with, whole."""
        return [text for one in self._of(column) if not one.calls for text in one.texts]

    def likes(self, column: str) -> list[str]:
        """Texts that match a pattern of LIKE, which sees no letter case."""
        return [text for one in self._of(column) if not one.is_exact for text in one.patterns]

    def parts(self, column: str) -> list[str]:
        """Texts that match a pattern of GLOB, or that a function of the column is compared with."""
        return [
            text
            for one in self._of(column)
            for text in (
                *(one.patterns if one.is_exact else ()),
                *(one.texts if one.calls else ()),
            )
        ]

    def joined(self) -> frozenset[frozenset[str]]:
        """Pairs of columns, by name, that are equated."""
        return frozenset(
            frozenset(one.columns)
            for one in self.comparisons
            if one.marks & {"=", "=="} and len(one.columns) == 2 and not one.calls
        )

    def compares(self, column: str) -> bool:
        """Whether a column is compared with anything."""
        return any(True for _ in self._of(column))

    def null(self, column: str) -> bool:
        """Whether it asks if a column is NULL in its own table."""
        return column.lower() not in self.paired and any(
            {"is", "null"} <= one.marks for one in self._of(column)
        )

    def all_numbers(self) -> list[Number]:
        """All numbers, whatever they are compared with."""
        return [number for one in self.comparisons for number in one.numbers]

    def all_texts(self) -> list[str]:
        """All texts and patterns, whatever they are compared with."""
        return [text for one in self.comparisons for text in (*one.texts, *one.patterns)]

    def _of(self, column: str) -> Iterator[ColumnComparison]:
        name = column.lower()
        return (one for one in self.comparisons if name in one.columns and one.marks & _COMPARES)


def spoken_of(query: str, columns: Collection[str]) -> Spoken:
    """Read a query about tables that have `columns`; never raises."""
    known = {name.lower() for name in columns}
    read = [one for one in _comparisons(query, known) if one.numbers or one.texts or one.marks]
    bare = _COMMENT.sub(" ", query)
    paired = _paired(bare, read) if _OUTER_JOIN.search(bare) else frozenset()
    return Spoken(tuple(read), bool(_NOW.search(bare)), bool(_CASE.search(bare)), paired)


def _paired(query: str, read: Collection[ColumnComparison]) -> frozenset[str]:
    """The columns by which tables are joined, in lower case."""
    equated = (
        one.columns
        for one in read
        if one.marks & {"=", "=="} and not (one.numbers or one.texts or one.calls)
    )
    named = (
        name.strip(' "`[]').lower() for using in _USING.findall(query) for name in using.split(",")
    )
    return frozenset().union(*equated, named)


def _comparisons(query: str, known: set[str]) -> Iterator[ColumnComparison]:
    one, depth, between, named = ColumnComparison(), 0, False, False
    for match in _TOKEN.finditer(query):
        kind, token = match.lastgroup, match[0]
        word = token.lower() if kind in {"word", "mark"} else ""
        depth += (word == "(") - (word == ")")
        ends = word in _BETWEEN_COMPARISONS or (word == "," and depth <= 0)
        if ends and not (word == "and" and between):
            yield one
            one, depth = ColumnComparison(), 0
        between = word == "between" or (between and word != "and")
        one.calls |= word == "(" and named
        named = kind == "word" and word not in _COMPARES and not ends
        _take(one, kind, token, known)
    yield one


def _take(one: ColumnComparison, kind: str | None, token: str, known: set[str]) -> None:
    """Add a token to the comparison that it stands in."""
    word = token.lower()
    if kind == "number" and len(one.numbers) < MOST_CONSTANTS and len(token) < 16:
        one.numbers.append(float(token) if "." in token else int(token))
    elif kind == "text":
        _take_text(one, token[1:-1].replace("''", "'"))
    elif kind == "quoted":
        inside = token[1:-1].replace('""', '"')
        if inside.lower() in known:
            one.columns.add(inside.lower())
        elif token[0] == '"':
            # SQLite takes a quoted name that is none for a text.
            _take_text(one, inside)
    elif word in known:
        one.columns.add(word)
    elif word in _COMPARES or word == "null":
        one.marks.add(word)


def _take_text(one: ColumnComparison, text: str) -> None:
    if len(text) > LONGEST_TEXT or len(one.texts) + len(one.patterns) >= MOST_CONSTANTS:
        return
    if one.marks & {"like", "glob"} and set(text) & set("%_*?"):
        core = re.sub(r"[_?]", "a", re.sub(r"[%*]", "", text))
        one.patterns += [core, f"Q{core}", f"{core}q"] if core else []
    else:
        one.texts.append(text)
