"""Reads the text of a query. No part of it is evaluated, and none is a regular expression."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from palestra.analysis.queries.tree import (
    TEXT,
    AllTerms,
    AnyTerm,
    BetweenTerm,
    ComparedTerm,
    ContainsTerm,
    HasTerm,
    Node,
    NotTerm,
    Query,
    QueryError,
    WordTerm,
)

LONGEST: Final = 2_000
"""The largest number of characters of a query."""
DEEPEST: Final = 32
"""How many parentheses may be open at once."""
EXAMPLE: Final = 'for example: reward<1 tools:search -"please"'

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<open>\() | (?P<close>\)) | (?P<minus>-)(?=["(\w])
    | (?:(?P<field>[^\W\d][\w.\-]*) | "(?P<name>[^"]+)")
      (?P<operator>:|!=|<=|>=|==|=(?!=)|<(?!=)|>(?!=)) (?P<value>"[^"]*"|[^\s()"]+)
    | (?P<unfinished>(?:[^\W\d][\w.\-]*|"[^"]+")(?:[:<>]|[!<>=]?=))(?=[\s()]|$)
    | "(?P<phrase>[^"]*)" | (?P<word>[^\s()":]+)
    )""",
    re.VERBOSE,
)
_SPACED_OPERATOR: Final = re.compile(r"(==|!=|<=|>=|=|<|>)([+-]?[\d.]\S*)?")
"""A word that is an operator, alone or before a number: the author of `reward >= 1` means a term."""
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_TRUTH: Final = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int
    field: str = ""
    operator: str = ""
    value: str = ""
    value_position: int = 0
    is_own_name: bool = False
    """Whether the field is in quotes, so that it is a name of a row whatever the word means here."""


def parse_query(text: str) -> Query:
    """Return the query of a text. An empty text matches everything.

    Raises QueryError, with the position: the text is too long, or not of this language.
    """
    if len(text) > LONGEST:
        reason = f"it has {len(text)} characters; at most {LONGEST} are read"
        raise QueryError(f"{text[:40]}…", LONGEST + 1, reason)
    return _Parser(text, _tokens(text)).query()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            start = len(text) - len(text[at:].lstrip())
            raise QueryError(text, start + 1, "this is not a term", hint=EXAMPLE)
        kind = match.lastgroup or ""
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        if kind == "unfinished":
            raise QueryError(
                text, match.end() + 1, f"a value is missing after {match[kind]!r}", hint=EXAMPLE
            )
        if kind == "word" and tokens and tokens[-1].kind in {"word", "phrase"}:
            _refuse_spaced_operator(text, start, tokens[-1].text, match["word"])
        tokens.append(
            _Token(
                "term" if kind == "value" else kind,
                match[kind],
                start + 1,
                match["field"] or match["name"] or "",
                (match["operator"] or "").replace("==", "="),
                match["value"] or "",
                match.start("value") + 1,
                is_own_name=match["name"] is not None,
            )
        )
        at = match.end()
    return tokens


def _refuse_spaced_operator(text: str, start: int, field: str, word: str) -> None:
    if match := _SPACED_OPERATOR.fullmatch(word):
        raise QueryError(
            text,
            start + 1,
            f"there is a space before {match[1]!r}",
            hint=f'write it without spaces, such as {field}{match[1]}1; to search for the text: "{word}"',
        )


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, text: str, tokens: Sequence[_Token]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0
        self._sort: _Token | None = None

    def query(self) -> Query:
        tree = self._either(0) if self._tokens else None
        if self._next is not None:
            raise self._error("this parenthesis was not opened")
        if self._sort is None:
            return Query(self._text, tree)
        order = self._sort.value.strip('"')
        return Query(self._text, tree, order, self._sort.position)

    @property
    def _next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _error(self, reason: str) -> QueryError:
        position = self._next.position if self._next is not None else len(self._text) + 1
        return QueryError(self._text, position, reason, hint=EXAMPLE)

    def _either(self, depth: int) -> Node | None:
        alternatives = [self._all(depth)]
        while self._takes_word("or"):
            alternatives.append(self._all(depth))
        if len(alternatives) == 1:
            return alternatives[0]
        if any(alternative is None for alternative in alternatives):
            raise self._error("`sort:` alone is no condition; write it at the end of the query")
        return AnyTerm(
            tuple(alternative for alternative in alternatives if alternative is not None)
        )

    def _all(self, depth: int) -> Node | None:
        """Return the terms up to `or`, `)` or the end; None when there is only `sort:`."""
        terms: list[Node] = []
        needs_term = True
        while needs_term or not self._ends_here():
            if not needs_term and self._takes_word("and"):
                needs_term = True
                continue
            term = self._negated(depth)
            needs_term = False
            if term is not None:
                terms.append(term)
        if len(terms) > 1:
            return AllTerms(tuple(terms))
        return terms[0] if terms else None

    def _ends_here(self) -> bool:
        token = self._next
        return token is None or token.kind == "close" or _is_word(token, "or")

    def _negated(self, depth: int) -> Node | None:
        is_negated, start = False, self._at
        while True:
            if self._next is not None and self._next.kind == "minus":
                self._at += 1
            elif not self._takes_word("not"):
                break
            is_negated = not is_negated
        term = self._operand(depth, may_sort=self._at == start)
        return NotTerm(term) if is_negated and term is not None else term

    def _operand(self, depth: int, *, may_sort: bool) -> Node | None:
        token = self._next
        if token is None or token.kind == "close" or _is_word(token, "or", "and"):
            raise self._error("a term is missing")
        if token.kind == "open":
            return self._in_parentheses(depth)
        if token.field == "sort" and token.operator == ":" and not token.is_own_name:
            if depth or not may_sort or self._sort is not None:
                raise self._error("`sort:` may stand once, outside parentheses, without `-`")
            self._sort = token
            self._at += 1
            return None
        self._at += 1
        return self._term(token) if token.kind == "term" else self._word(token, token.text)

    def _word(self, token: _Token, text: str) -> WordTerm:
        if not text:
            raise QueryError(self._text, token.position, "an empty text is in every row")
        return WordTerm(text)

    def _in_parentheses(self, depth: int) -> Node | None:
        if depth >= DEEPEST:
            raise self._error(f"more than {DEEPEST} parentheses are open")
        self._at += 1
        inner = self._either(depth + 1)
        if self._next is None:
            raise self._error("a parenthesis is not closed")
        self._at += 1
        return inner

    def _term(self, token: _Token) -> Node:
        value = token.value.strip('"')
        is_quoted = token.value.startswith('"')
        if token.field == "has" and token.operator == ":" and not token.is_own_name:
            return HasTerm(value, token.position)
        if token.field == TEXT and token.operator in {":", "="} and not token.is_own_name:
            text = self._word(token, value).text
            return WordTerm(text, whole_transcript=True, is_exact=token.operator == "=")
        if token.operator != ":":
            return self._compared(token, value)
        if value.startswith("~") and not is_quoted:
            return ContainsTerm(token.field, token.position, self._word(token, value[1:]).text)
        if not is_quoted and (bounds := _bounds(value)) is not None:
            return BetweenTerm(token.field, token.position, *bounds)
        choices = [value] if is_quoted else [choice for choice in value.split(",") if choice]
        terms = [_equal(token, choice) for choice in choices or [value]]
        return terms[0] if len(terms) == 1 else AnyTerm(tuple(terms))

    def _compared(self, token: _Token, value: str) -> Node:
        number = _number(value)
        if number is None and token.operator not in {"=", "!="}:
            raise QueryError(self._text, token.value_position, f"{value!r} is not a number")
        return ComparedTerm(token.field, token.position, token.operator, value, number)

    def _takes_word(self, word: str) -> bool:
        is_next = self._next is not None and _is_word(self._next, word)
        self._at += is_next
        return is_next


def _is_word(token: _Token, *words: str) -> bool:
    return token.kind == "word" and token.text.lower() in words


def _equal(token: _Token, value: str) -> ComparedTerm:
    return ComparedTerm(token.field, token.position, "=", value, _number(value))


def _bounds(value: str) -> tuple[float | None, float | None] | None:
    """Return the ends of `low..high`, either of which may be empty; None for any other value."""
    low, dots, high = value.partition("..")
    ends = _number(low), _number(high)
    if not dots or ends == (None, None) or (low and ends[0] is None) or (high and ends[1] is None):
        return None
    return ends


def _number(value: str) -> float | None:
    if _NUMBER.fullmatch(value):
        return float(value)
    return _TRUTH.get(value.lower())
