"""Writes terms of the query language."""

import math
import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w./+@#-]+")
_OTHERWISE_MEANT: Final = frozenset({"has", "sort", "text"})
"""Words with a meaning of their own before a colon."""
_NAME: Final = re.compile(r"[^\W\d][\w.\-]*")


def _name(field: str) -> str:
    """Return a field as a query writes it."""
    is_plain = _NAME.fullmatch(field) and field not in _OTHERWISE_MEANT
    return field if is_plain else f'"{field}"'


def term(field: str, value: str) -> str:
    """Return the term that selects a text; empty when the language cannot write it."""
    if '"' in field:
        return ""
    if _PLAIN.fullmatch(value) and "," not in value and ".." not in value:
        return f"{_name(field)}:{value}"
    return "" if '"' in value or not value else f'{_name(field)}:"{value}"'


def number_range(field: str, low: float, high: float) -> str:
    """Return the term that selects numbers from `low` to `high`, both included."""
    if math.isnan(low) or math.isnan(high) or '"' in field:
        return ""
    if low == high:
        return f"{_name(field)}={low!r}"
    return f"{_name(field)}:{low!r}..{high!r}"
