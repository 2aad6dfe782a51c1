"""Reading queries: what can be told of one without running it.

Pure functions of text, linear in its length, that never raise.
"""

import re

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\[\]]*\]""")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)
_AFTER_ORDER = re.compile(r"\blimit\b|\boffset\b|;", re.IGNORECASE)


def same_text(first: str, second: str) -> bool:
    """Whether two queries differ in blanks and a last semicolon at most."""
    if any(mark in query for query in (first, second) for mark in ("--", "/*")):
        return first == second
    return _tokens(first) == _tokens(second)


def is_ordered(query: str) -> bool:
    """Whether the order of the rows is part of the result: it has an ORDER BY of its own."""
    return _ORDER_BY.search(_outside(query)) is not None


def with_equals_told_apart(query: str, columns: int, *, descending: bool) -> str:
    """The query with its columns added to its own ORDER BY, so that no rows are equals for it."""
    outside = _outside(query)
    found = list(_ORDER_BY.finditer(outside))
    if not found:
        return query
    rest = _AFTER_ORDER.search(outside, found[-1].end())
    end = rest.start() if rest else len(outside)
    way = " DESC" if descending else ""
    more = "".join(f", {number}{way}" for number in range(1, columns + 1))
    # On a line of its own, behind a comment that may stand before it.
    return f"{query[:end]}\n{more} {query[end:]}"


def without_quotes(query: str) -> str:
    """The query with blanks for what is quoted or commented; as long as it is."""
    return _COMMENT.sub(_blank, _QUOTED.sub(_blank, query))


def _outside(query: str) -> str:
    """The query with blanks for what is quoted, commented or in parentheses; as long as it is."""
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
    """What a query consists of, its quoted parts whole and its other words one by one."""
    tokens: list[str] = []
    last = 0
    for quoted in _QUOTED.finditer(query):
        tokens += [*query[last : quoted.start()].split(), quoted[0]]
        last = quoted.end()
    tokens += query[last:].split()
    if tokens and tokens[-1].endswith(";"):
        tokens[-1] = tokens[-1].rstrip(";")
    return [token for token in tokens if token]
