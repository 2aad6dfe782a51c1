"""Classes of environments for tests of their methods, and the warnings of their rows."""

from typing import Any, Final

from palestra import Environment
from palestra.server import EnvironmentDefinition

ROWS: Final = [{"question": "2 + 2 = ?", "answer": "4", "task": "sums", "wanted": "4"}]


def with_methods(**members: Any) -> type[Environment]:
    """A class with one row, and a `verify` that asks for nothing."""
    parts = {"data": ROWS, "prompt": "{question}", "verify": lambda self: 1.0, **members}
    return type("Sums", (Environment,), parts)


def warnings_of(subject: Any, rows: Any = None) -> list[str]:
    """The warnings of the rows of an environment."""
    warnings: list[str] = []
    list(EnvironmentDefinition.of(subject).rows(rows, warn=warnings.append))
    return warnings
