"""From what a program wrote to whether it is right.

Pure functions that never raise. The rules are those of LiveCodeBench.
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
"""No value is spelt so many times longer than another way: 1e308 takes 5 characters, or 309."""

WRONG_LENGTH = "Wrong answer: mismatched output length"


def wrong_output(written: str, expected: str) -> str | None:
    """Why an output is wrong; None when it is right.

    Line by line, without space around a line and without empty lines around the whole. Lines of
    numbers are equal when their numbers are, exactly. It takes little more memory than the texts
    do, however many lines and numbers they have.
    """
    written, expected = written.strip(), expected.strip()
    if written.count("\n") != expected.count("\n"):
        return WRONG_LENGTH
    lines = zip(_lines(written), _lines(expected), strict=True)
    for number, (line, right) in enumerate(lines):
        if line != right and not _same_numbers(line, right):
            told = f"{excerpt(line)} != {excerpt(right)}"
            return f"Wrong answer at output_line_idx={number}: {told}"
    return None


def same_value(returned: bytes, expected: str) -> bool:
    """Whether JSON of what a function returned is the expected JSON."""
    if len(returned) > LONGEST_SPELLING * (len(expected) + 10):
        return False  # read into values, it may take thirty times the memory
    try:
        return bool(json_value(returned) == json_value(expected))
    except (ValueError, RecursionError):
        return False


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text, its numbers as long as they are.

    Raises ValueError, and RecursionError when it is nested too deeply.
    """
    return json.loads(text, parse_int=_whole)


def excerpt(value: Any) -> str:
    """A text, its middle left out when it is long."""
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
    """Whether both are numbers and nothing else, and the same ones. One after the other."""
    try:
        return all(ours == theirs for ours, theirs in zip_longest(_numbers(line), _numbers(right)))
    except InvalidOperation:  # also when a signalling NaN is compared
        return False


def _numbers(line: str) -> Iterator[Decimal]:
    return (Decimal(token.group()) for token in re.finditer(r"\S+", line))


def _whole(digits: str) -> int | Decimal:
    """A whole number. Python takes only so many digits of an int, and reads them slowly."""
    return int(digits) if len(digits) < FEW_DIGITS else Decimal(digits)
