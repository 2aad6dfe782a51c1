"""Queries over rollouts: `outcome:scored reward<1 tools:search -"please"`.

    term    = field:value | field<value (= != < <= > >=) | has:field | word | "phrase"
    query   = terms beside each other, `and`, `or`, `not`, `-term`, parentheses

After `field:` stand a value, several with commas (any of them), a range `low..high` (ends included),
or `~part` (contained). Numbers compare as numbers, texts without case. A field that a rollout lacks
matches nothing but `-has:field`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from palestra.errors import ConfigError

LONGEST: Final = 2_000
"""The largest number of characters of a query."""
DEEPEST: Final = 32
"""How many parentheses may be open at once."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<open>\() | (?P<close>\)) | (?P<minus>-)(?=["(\w])
    | (?P<field>[A-Za-z_][\w.]*)(?P<operator>:|!=|<=|>=|=|<|>)(?P<value>"[^"]*"|[^\s()"]+)
    | "(?P<phrase>[^"]*)" | (?P<word>[^\s()":]+)
    )""",
    re.VERBOSE,
)

Fields = Callable[[str], Sequence[Any]]
"""Returns the values of a field of one rollout; none when it lacks the field."""
Condition = Callable[[Fields], bool]
_COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
TEXT: Final = "text"
"""The field that a bare word is looked for in."""


def parse_query(text: str) -> Condition:
    """Return the condition of a query. An empty query matches everything.

    Raises ConfigError, with the position: the query is too long, or not of this language.
    """
    if len(text) > LONGEST:
        raise ConfigError(f"the query has {len(text)} characters; at most {LONGEST} are read")
    parser = _Parser(text, _tokens(text))
    condition = parser.either(0)
    if parser.next is not None:
        raise parser.error(f"{parser.next.text!r} has no beginning")
    return condition


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int
    field: str = ""
    operator: str = ""
    value: str = ""


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigError(
                f"the query {text!r} cannot be read at character {at + 1}",
                hint='for example: reward<1 tools:search -"please"',
            )
        kind = match.lastgroup or ""
        kind = "term" if kind == "value" else kind
        tokens.append(
            _Token(
                kind,
                match[match.lastgroup or 0],
                match.start() + len(match[0]) - len(match[0].lstrip()),
                match["field"] or "",
                match["operator"] or "",
                match["value"] or "",
            )
        )
        at = match.end()
    return tokens


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, text: str, tokens: Sequence[_Token]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0

    @property
    def next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def error(self, why: str) -> ConfigError:
        at = self.next.at + 1 if self.next is not None else len(self._text) + 1
        return ConfigError(f"the query {self._text!r} is wrong at character {at}: {why}")

    def either(self, depth: int) -> Condition:
        conditions = [self._all(depth)]
        while self._takes_word("or"):
            conditions.append(self._all(depth))
        return lambda fields: any(condition(fields) for condition in conditions)

    def _all(self, depth: int) -> Condition:
        conditions: list[Condition] = []
        while (token := self.next) is not None and token.kind != "close":
            if token.kind == "word" and token.text.lower() == "or":
                break
            if not self._takes_word("and"):
                conditions.append(self._negated(depth))
        return lambda fields: all(condition(fields) for condition in conditions)

    def _negated(self, depth: int) -> Condition:
        token = self.next
        if self._takes_word("not") or (token is not None and token.kind == "minus"):
            if token is not None and token.kind == "minus":
                self._at += 1
            condition = self._negated(depth)
            return lambda fields: not condition(fields)
        return self._operand(depth)

    def _operand(self, depth: int) -> Condition:
        token = self.next
        if token is None:
            raise self.error("it ends too early")
        self._at += 1
        if token.kind == "open":
            if depth >= DEEPEST:
                raise self.error(f"more than {DEEPEST} parentheses are open")
            inner = self.either(depth + 1)
            if self.next is None or self.next.kind != "close":
                raise self.error("a parenthesis is not closed")
            self._at += 1
            return inner
        if token.kind == "term":
            return _term(token)
        return _contains(TEXT, token.text)

    def _takes_word(self, word: str) -> bool:
        token = self.next
        is_next = token is not None and token.kind == "word" and token.text.lower() == word
        self._at += is_next
        return is_next


def _term(token: _Token) -> Condition:
    value = token.value.strip('"')
    if token.field == "has":
        return lambda fields: bool(fields(value))
    if token.operator != ":":
        return _compared(token.field, token.operator, value)
    if token.field == TEXT:
        return _contains(TEXT, value)
    if value.startswith("~"):
        return _contains(token.field, value[1:])
    low, dots, high = value.partition("..")
    if dots and (bounds := (_number(low), _number(high))) != (None, None):
        at_least, at_most = bounds
        return lambda fields: any(
            (number := _number(item)) is not None
            and (at_least is None or number >= at_least)
            and (at_most is None or number <= at_most)
            for item in fields(token.field)
        )
    choices = value.split(",") if not token.value.startswith('"') else [value]
    return lambda fields: any(
        _equal(item, choice) for item in fields(token.field) for choice in choices
    )


def _compared(name: str, operator: str, value: str) -> Condition:
    number = _number(value)
    if number is None and operator not in {"=", "!="}:
        raise ConfigError(f"{name}{operator}{value}: {value!r} is not a number")

    def condition(fields: Fields) -> bool:
        values = fields(name)
        if number is None:
            return bool(values) and _any_equal(values, value) == (operator == "=")
        numbers = (_number(item) for item in values)
        return any(_COMPARED[operator](item, number) for item in numbers if item is not None)

    return condition


def _contains(name: str, part: str) -> Condition:
    lowered = part.lower()
    return lambda fields: any(lowered in str(item).lower() for item in fields(name))


def _any_equal(values: Iterable[Any], value: str) -> bool:
    return any(_equal(item, value) for item in values)


def _equal(item: Any, value: str) -> bool:
    number, wanted_number = _number(item), _number(value)
    if number is not None and wanted_number is not None:
        return number == wanted_number
    return str(item).lower() == value.lower()


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return {"true": 1.0, "false": 0.0}.get(str(value).lower())
