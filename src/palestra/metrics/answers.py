"""The answers that a verifier compares: their equality as numbers."""

import re
from decimal import Decimal
from typing import Any, Final

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_LONGEST: Final = 100


def are_same_number(extracted: Any, expected: Any) -> bool:
    """Whether two answers are plain decimal numbers and equal, such as `14.0` and `14`."""
    first, second = _number(extracted), _number(expected)
    return first is not None and first == second


def _number(answer: Any) -> Decimal | None:
    if type(answer) not in {str, int, float}:
        return None
    text = str(answer).strip()
    return Decimal(text) if len(text) <= _LONGEST and _NUMBER.fullmatch(text) else None
