"""What rows are measured by: exact, in memory that does not grow with them, in any order.

Each measure takes values, takes another measure of its kind, and says what it has found. Whatever
the order, and however the rows were cut into parts, the result is the same to the last digit.
"""

from palestra.datasets.measures.digests import Uniques, as_array
from palestra.datasets.measures.fields import Field, Numbers, Texts
from palestra.datasets.measures.rows import (
    EXAMPLES,
    OURS,
    REQUESTS,
    SAMPLING,
    TEMPERATURE,
    TOKENS,
    TOOLS,
    TURNS,
    USERS,
    WORDS,
    RowMeasures,
)

__all__ = [
    "EXAMPLES",
    "OURS",
    "REQUESTS",
    "SAMPLING",
    "TEMPERATURE",
    "TOKENS",
    "TOOLS",
    "TURNS",
    "USERS",
    "WORDS",
    "Field",
    "Numbers",
    "RowMeasures",
    "Texts",
    "Uniques",
    "as_array",
]
