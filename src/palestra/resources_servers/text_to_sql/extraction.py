"""`extract_sql`: find the query in a model's text, in any of the usual formats.

Pure functions that never raise and take linear time.
"""

import re
from collections import deque
from collections.abc import Iterator

from palestra.resources_servers.latex_text import last_box
from palestra.resources_servers.text_to_sql.queries import without_quotes

LONGEST_QUERY = 50_000
"""The longest query in characters; a longer text is not accepted."""

_BLOCK = re.compile(
    r"(?P<fence>```|~~~)[ \t]*(?P<language>[\w+-]*)[ \t]*\r?\n(?P<inside>.*?)(?P=fence)", re.DOTALL
)
_OPENED = re.compile(r"(?:```|~~~)[ \t]*[\w+-]*[ \t]*\r?\n")
_FENCE = re.compile("```|~~~")
_SQL = re.compile(r"sql|postgres|duckdb|oracle", re.IGNORECASE)
_TAG = re.compile(r"</?sql>", re.IGNORECASE)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_LABEL = re.compile(
    r"^[ \t*_#>]{0,9}(?:final[ ])?(?:sql(?:[ ]query)?|query|answer)[*_]{0,3}[ ]?:[ \t*_]{0,9}",
    re.IGNORECASE | re.MULTILINE,
)
_TEXT = re.compile(r"\\text\{(.*)\}", re.DOTALL)
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


def extract_sql(text: str) -> str | None:
    """Return the query in a model's text; None when there is none.

    A closed block with a query is preferred, first one marked as SQL; then a bare query; then a
    query marked in another way. A block that does not start like a query (a result, for example) is
    used only when nothing else is found.
    """
    blocks = [
        (match["inside"].strip(), bool(_SQL.search(match["language"])))
        for match in _BLOCK.finditer(text)
    ]
    queries = [(block, is_marked) for block, is_marked in blocks if _BEGINS.match(block)]
    ranked = (
        [block for block, is_marked in queries if is_marked],
        _queries(_tagged(text)),
        [block for block, _ in queries],
        _bare(text),
        _queries(_boxed(text)),
        _queries(_labelled(text)),
        _queries(match[1] for match in _SPAN.finditer(text)),
        _queries(_unclosed(text)),
        [block for block, is_marked in blocks if is_marked],
        [block for block, _ in blocks],
    )
    query = next((kind[-1] for kind in ranked if kind), "")
    return query if 0 < len(query) <= LONGEST_QUERY else None


def _queries(candidates: Iterator[str]) -> list[str]:
    """Return the candidates that start like a query."""
    return [candidate.strip() for candidate in candidates if _BEGINS.match(candidate)]


def _bare(text: str) -> list[str]:
    """Return a query outside of any block: the whole text, or one statement before the first block."""
    first = _BLOCK.search(text)
    bare = text[: first.start()].strip() if first else text.strip()
    if _FENCE.search(bare) or not _BEGINS.match(bare):
        return []
    return [bare if first is None else _statement(bare)]


def _statement(text: str) -> str:
    """Return the first statement of a text: up to a semicolon, else up to a blank line."""
    end = without_quotes(text).find(";") + 1
    blank = _BLANK_LINE.search(text)
    return text[:end] if end else text[: blank.start()] if blank else text


def _tagged(text: str) -> Iterator[str]:
    """Yield the texts between `<sql>` and `</sql>`."""
    opened: int | None = None
    for tag in _TAG.finditer(text):
        if tag[0][1] != "/":
            opened = tag.end()
        elif opened is not None:
            yield text[opened : tag.start()]
            opened = None


def _labelled(text: str) -> Iterator[str]:
    """Yield the statement after the last `SQL:` at the start of a line."""
    for label in deque(_LABEL.finditer(text), maxlen=1):
        if not _FENCE.search(text, label.end()):
            yield _statement(text[label.end() :].strip())


def _boxed(text: str) -> Iterator[str]:
    r"""Yield the content of the last box, without a `\text{}` around it."""
    inside = (last_box(text) or "").strip()
    as_text = _TEXT.fullmatch(inside)
    yield as_text[1] if as_text else inside


def _unclosed(text: str) -> Iterator[str]:
    """Yield the content of a last block that is never closed."""
    end = max((match.end() for match in _BLOCK.finditer(text)), default=0)
    fences = list(_FENCE.finditer(text, end))
    opened = _OPENED.match(text, fences[0].start()) if len(fences) == 1 else None
    if opened:
        yield text[opened.end() :]
