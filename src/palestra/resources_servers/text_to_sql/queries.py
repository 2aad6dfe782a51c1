"""Read properties of a query without running it.

Pure functions that never raise and take linear time.
"""

import re

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\[\]]*\]""")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)
_AFTER_ORDER = re.compile(r"\blimit\b|\boffset\b|;", re.IGNORECASE)


def same_text(first: str, second: str) -> bool:
    """Whether two queries are the same text except for blanks and a last semicolon."""
    if any(mark in query for query in (first, second) for mark in ("--", "/*")):
        return first == second
    return _tokens(first) == _tokens(second)


def is_ordered(query: str) -> bool:
    """Whether the query has an ORDER BY at its top level, so that the order of rows counts."""
    return _ORDER_BY.search(_outside(query)) is not None


def with_equals_told_apart(query: str, columns: int, *, descending: bool) -> str:
    """Add all columns to the query's own ORDER BY, so that no two different rows are tied."""
    outside = _outside(query)
    order_clauses = list(_ORDER_BY.finditer(outside))
    if not order_clauses:
        return query
    remainder = _AFTER_ORDER.search(outside, order_clauses[-1].end())
    end = remainder.start() if remainder else len(outside)
    way = " DESC" if descending else ""
    tie_breakers = "".join(f", {number}{way}" for number in range(1, columns + 1))
    # On a line of its own, behind a comment that may stand before it.
    return f"{query[:end]}\n{tie_breakers} {query[end:]}"


def without_quotes(query: str) -> str:
    """Replace quoted parts and comments of a query by blanks of the same length."""
    return _COMMENT.sub(_blank, _QUOTED.sub(_blank, query))


def _outside(query: str) -> str:
    """Replace quoted parts, comments and parentheses of a query by blanks of the same length."""
    depth, outside = 0, []
    for part in re.split(r"([()])", without_quotes(query)):
        if part == "(":
            depth += 1
        outside.append(part if depth <= 0 else " " * len(part))
        if part == ")":
            depth -= 1
    return "".join(outside)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _tokens(query: str) -> list[str]:
    """Split a query into words; each quoted part is one token."""
    tokens: list[str] = []
    last = 0
    for quoted in _QUOTED.finditer(query):
        tokens += [*query[last : quoted.start()].split(), quoted[0]]
        last = quoted.end()
    tokens += query[last:].split()
    if tokens and tokens[-1].endswith(";"):
        tokens[-1] = tokens[-1].rstrip(";")
    return [token for token in tokens if token]
