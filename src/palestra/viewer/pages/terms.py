"""Writes terms of the query language."""

import math
import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w./+@#-]+")


def term(field: str, value: str) -> str:
    """Return the term that selects a text; empty when the language cannot write it."""
    if _PLAIN.fullmatch(value) and "," not in value and ".." not in value:
        return f"{field}:{value}"
    return "" if '"' in value or not value else f'{field}:"{value}"'


def number_range(field: str, low: float, high: float) -> str:
    """Return the term that selects numbers from `low` to `high`, both included."""
    if math.isnan(low) or math.isnan(high):
        return ""
    if low == high:
        return f"{field}={low!r}"
    return f"{field}:{low!r}..{high!r}"
