"""Report all that is wrong with what a user gave, in one error."""

from collections.abc import Sequence

from palestra.errors import ConfigError


def refuse(problems: Sequence[str], *, hint: str = "") -> None:
    """Do nothing without problems; else raise one ConfigError with all of them."""
    if len(problems) == 1:
        raise ConfigError(problems[0], hint=hint)
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise ConfigError(f"{len(problems)} problems:\n{listed}", hint=hint)
