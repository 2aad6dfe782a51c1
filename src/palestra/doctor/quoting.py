"""Make evidence for findings: quotes of lines in files and of fields in rows."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.config import MASK, is_secret_name, mask_line
from palestra.datasets import DoorKeeper, RowEndpoint
from palestra.doctor.findings import Quote, quote
from palestra.doctor.reading import json_rows
from palestra.errors import ConfigError, FieldProblem, PalestraError, RowIdentity
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, JsonObject

LONGEST_LINE: Final = 2_000_000
"""Largest number of bytes of a line that are quoted."""
MOST_QUOTES: Final = 5
_NAMED: Final = re.compile(r"'([^']{2,100})'|(?<![\w/.-])([A-Za-z_][\w-]*(?:\.[\w-]+)+)")
"""A name in a message: a quoted word, or a dotted key that is not part of a path."""


def quote_line(path: Path, line: int, *, pointer: str = "", text: str | None = None) -> Quote:
    """Quote line `line` of a file, with `text` in place of its content if given. Empty for a
    missing file.
    """
    return quote(path, line_of(path, line) if text is None else text, line=line, pointer=pointer)


def line_of(path: Path, number: int) -> str:
    """Return line `number`, counted from 1, as text; empty when it does not exist."""
    try:
        with path.open("rb") as file:
            line_bytes = next(islice(file, number - 1, number), b"")
    except OSError:
        return ""
    return line_bytes[:LONGEST_LINE].decode("utf-8", "replace").strip("\r\n")


def quote_named(message: str, files: Iterable[Path]) -> tuple[Quote, ...]:
    """Quote the lines of `files` that contain a name from `message`, such as a misspelt reference."""
    words = [a or b.rpartition(".")[2] for a, b in _NAMED.findall(message)]
    quotes: dict[tuple[Path, int], Quote] = {}
    for word in dict.fromkeys(words):
        pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        for path in files:
            for number, text in _lines(path):
                if pattern.search(text) and not text.lstrip().startswith("#"):
                    quotes.setdefault((path, number), quote(path, _excerpt(text), line=number))
                    break
    return tuple(quotes.values())[:MOST_QUOTES]


def quote_places(error: PalestraError) -> tuple[Quote, ...]:
    """Quote the lines of config files that have the problems of an error, each once. Empty when no
    line is known.
    """
    problems = error.problems if isinstance(error, ConfigError) else ()
    file_lines = dict.fromkeys((Path(p.file), p.line) for p in problems if p.line)
    return tuple(
        quote(path, _excerpt(line_of(path, line)), line=line)
        for path, line in list(file_lines)[:MOST_QUOTES]
    )


def _excerpt(text: str) -> str:
    """Return a line of a config file, with the value after a key masked that is a secret name."""
    key, colon, _ = text.strip().partition(":")
    is_secret = colon and is_secret_name(key.strip("- '\""))
    return f"{key}: {MASK}" if is_secret else mask_line(text.strip())


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        return list(enumerate(path.read_text(encoding="utf-8").splitlines(), start=1))
    except (OSError, UnicodeDecodeError):
        return []


MOST_FIELDS: Final = 5
LONGEST_VALUE: Final = 120
_ABSENT: Final = object()


def _materialized_row(inputs: Path, row: RowIdentity) -> tuple[int, JsonObject] | None:
    """Return line number and content of a rollout's row in the materialized inputs.

    Without a rollout index: the first row of its task, because all rows of a task are alike.
    """
    if not inputs.is_file():
        return None
    for number, row_fields in json_rows(inputs):
        if not isinstance(row_fields, Mapping) or row_fields.get(TASK_INDEX) != row.task:
            continue
        if row.rollout is None or row_fields.get(ROLLOUT_INDEX) == row.rollout:
            return number, row_fields
    return None


def quote_fields(
    inputs: Path,
    row: RowIdentity,
    problems: Sequence[FieldProblem],
    doors: Sequence[RowEndpoint],
) -> tuple[Quote, ...]:
    """Quote the invalid fields of a row: those in `problems`, and those that `doors` reject."""
    numbered_row = _materialized_row(inputs, row)
    if numbered_row is None:
        return ()
    number, row_fields = numbered_row
    quotes = [_quote_field(inputs, number, row_fields, p.pointer, p.expected) for p in problems]
    problem_pointers = {problem.pointer for problem in problems}
    for pointer, expected in _by_doors(row_fields, doors):
        if pointer not in problem_pointers:
            quotes.append(_quote_field(inputs, number, row_fields, pointer, expected))
    return tuple(quotes[:MOST_FIELDS])


def _by_doors(row: JsonObject, doors: Sequence[RowEndpoint]) -> Iterator[tuple[str, str]]:
    for text in DoorKeeper(list(doors)).problems(row):
        pointer, _, expected = text.partition(": ")
        yield ("" if pointer == "/" else pointer), expected


def _quote_field(inputs: Path, number: int, row: JsonObject, pointer: str, expected: str) -> Quote:
    value = _value_at(row, pointer)
    has = "the row has no such field" if value is _ABSENT else f"the row has {_value_text(value)}"
    text = f"{expected}; {has}" if pointer else expected
    return quote(inputs, text, line=number, pointer=pointer or "/")


def _value_at(row: Any, pointer: str) -> Any:
    node = row
    for step in pointer.split("/")[1:]:
        if isinstance(node, Mapping) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        else:
            return _ABSENT
    return node


def _value_text(value: Any) -> str:
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
