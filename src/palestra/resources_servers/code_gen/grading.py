"""From what a program wrote to whether it is right.

Pure functions that never raise. The rules are those of LiveCodeBench.
"""

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

LONGEST_EXCERPT = 300
WRONG_LENGTH = "Wrong answer: mismatched output length"


def wrong_output(written: str, expected: str) -> str | None:
    """Why an output is wrong; None when it is right.

    Line by line, without space around a line and without empty lines around the whole. Lines of
    numbers are equal when their numbers are, exactly.
    """
    ours, theirs = _lines(written), _lines(expected)
    if len(ours) != len(theirs):
        return WRONG_LENGTH
    for number, (line, right) in enumerate(zip(ours, theirs, strict=True)):
        if line != right and not _same_numbers(line, right):
            told = f"{excerpt(line)} != {excerpt(right)}"
            return f"Wrong answer at output_line_idx={number}: {told}"
    return None


def same_value(returned: bytes, expected: str) -> bool:
    """Whether JSON of what a function returned is the expected JSON."""
    try:
        return bool(json.loads(returned) == json.loads(expected))
    except (ValueError, RecursionError):
        return False


def excerpt(value: Any) -> str:
    """A text, its middle left out when it is long."""
    text = value if isinstance(value, str) else str(value)
    if len(text) <= LONGEST_EXCERPT:
        return text
    half = LONGEST_EXCERPT // 2
    return f"{text[:half]}...(truncated) ...{text[-half:]}"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(line: str, right: str) -> bool:
    ours, theirs = _numbers(line), _numbers(right)
    return ours is not None and theirs is not None and ours == theirs


def _numbers(line: str) -> Sequence[Decimal] | None:
    try:
        found = [Decimal(token) for token in line.split()]
    except InvalidOperation:
        return None
    # comparing a signalling NaN raises
    return None if any(number.is_snan() for number in found) else found
