"""Decide whether the output of a program is right.

Pure functions that never raise, except `json_value`. The rules are those of LiveCodeBench.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any

LONGEST_EXCERPT = 300
FEW_DIGITS = 4_000
LONGEST_SPELLING = 100
"""No spelling of a value is this many times longer than another: 1e308 has 5 characters, or 309
digits."""

WRONG_LENGTH = "Wrong answer: mismatched output length"


def wrong_output(written: str, expected: str) -> str | None:
    """Return why an output is wrong; None when it is right.

    The texts are compared line by line. Blanks around a line and empty lines around the whole text
    do not count. Two lines of numbers are equal when their numbers are exactly equal. The function
    needs little more memory than the texts, however many lines and numbers they have.
    """
    written, expected = written.strip(), expected.strip()
    if written.count("\n") != expected.count("\n"):
        return WRONG_LENGTH
    lines = zip(_lines(written), _lines(expected), strict=True)
    for number, (line, right) in enumerate(lines):
        if line != right and not _same_numbers(line, right):
            difference = f"{excerpt(line)} != {excerpt(right)}"
            return f"Wrong answer at output_line_idx={number}: {difference}"
    return None


def same_value(returned: bytes, expected: str) -> bool:
    """Whether the JSON text of a function's result equals the expected JSON."""
    if len(returned) > LONGEST_SPELLING * (len(expected) + 10):
        return False  # read into values, it may take thirty times the memory
    try:
        return bool(json_value(returned) == json_value(expected))
    except (ValueError, RecursionError):
        return False


def json_value(text: str | bytes) -> Any:
    """Parse a JSON text, and keep every integer exact.

    Raises ValueError: not JSON. Raises RecursionError: nested too deeply.
    """
    return json.loads(text, parse_int=_as_exact)


def excerpt(value: Any) -> str:
    """Return a value as text; the middle of a long text is left out."""
    text = value if isinstance(value, str) else str(value)
    if len(text) <= LONGEST_EXCERPT:
        return text
    half = LONGEST_EXCERPT // 2
    return f"{text[:half]}...(truncated) ...{text[-half:]}"


def _lines(text: str) -> Iterator[str]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end].strip()
        start = end + 1
    yield text[start:].strip()


def _same_numbers(line: str, right: str) -> bool:
    """Whether both lines contain only numbers, and the same numbers in the same order.

    The numbers are parsed one at a time, to save memory.
    """
    try:
        return all(ours == theirs for ours, theirs in zip_longest(_numbers(line), _numbers(right)))
    except InvalidOperation:  # also when a signalling NaN is compared
        return False


def _numbers(line: str) -> Iterator[Decimal]:
    return (Decimal(token.group()) for token in re.finditer(r"\S+", line))


def _as_exact(digits: str) -> int | Decimal:
    """Parse the digits of an integer. Long ones become a Decimal: Python limits the digits of an
    int and parses many of them slowly.
    """
    return int(digits) if len(digits) < FEW_DIGITS else Decimal(digits)
