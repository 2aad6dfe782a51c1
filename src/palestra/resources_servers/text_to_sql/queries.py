r"""Reading queries: out of a model's text, and what can be told of one without running it.

Pure functions of text, linear in its length, that never raise.
"""

import re

LONGEST_QUERY = 50_000
"""Characters; a longer text is no answer to a question."""

_BLOCK = re.compile(
    r"(?P<fence>```|~~~)[ \t]*(?P<language>[\w+-]*)[ \t]*\r?\n(?P<inside>.*?)(?P=fence)", re.DOTALL
)
_FENCE = re.compile("```|~~~")
_SQL = re.compile(r"sql|postgres|duckdb|oracle", re.IGNORECASE)
_BEGINS = re.compile(
    r"""
    (?: \s | \( | --[^\n]*(?:\n|\Z) | /\*.*?(?:\*/|\Z) )*+
    (?: (?:select|insert|update|delete|create)\b
      | values\s*\(
      | with\s+(?:recursive\s+)?[^\s(]+\s*(?:\([^()]*\)\s*)?as\s*(?:(?:not\s+)?materialized\s*)?\(
    )
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\[\]]*\]""")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)
_AFTER_ORDER = re.compile(r"\blimit\b|\boffset\b|;", re.IGNORECASE)


def extract_sql(text: str) -> str | None:
    """The last closed block that holds a query, one marked as SQL before others, or a bare query.

    A block that begins like no query (its result, say) is taken where there is nothing else.
    """
    blocks = [
        (match["inside"].strip(), bool(_SQL.search(match["language"])))
        for match in _BLOCK.finditer(text)
    ]
    queries = [(block, is_marked) for block, is_marked in blocks if _BEGINS.match(block)]
    ranked = (
        [block for block, is_marked in queries if is_marked],
        [block for block, _ in queries],
        _bare(text),
        [block for block, is_marked in blocks if is_marked],
        [block for block, _ in blocks],
    )
    found = next((kind[-1] for kind in ranked if kind), "")
    return found if 0 < len(found) <= LONGEST_QUERY else None


def _bare(text: str) -> list[str]:
    """A query outside of any block: the whole text, or one statement with blocks behind it."""
    first = _BLOCK.search(text)
    bare = text[: first.start()].strip() if first else text.strip()
    if _FENCE.search(bare) or not _BEGINS.match(bare):
        return []
    if first is None:
        return [bare]
    plain = _COMMENT.sub(_blank, _QUOTED.sub(_blank, bare))
    end = plain.find(";") + 1
    blank = _BLANK_LINE.search(bare)
    return [bare[:end] if end else bare[: blank.start()] if blank else bare]


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


def _outside(query: str) -> str:
    """The query with blanks for what is quoted, commented or in parentheses; as long as it is."""
    plain = _COMMENT.sub(_blank, _QUOTED.sub(_blank, query))
    depth, outside = 0, []
    for part in re.split(r"([()])", plain):
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
