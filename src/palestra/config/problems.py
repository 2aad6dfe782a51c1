"""Report every problem of one step in one error."""

from collections.abc import Sequence

from palestra.errors import ConfigError


def raise_problems(problems: Sequence[str], *, hint: str = "") -> None:
    """Do nothing without problems; else raise one `ConfigError` that lists them all."""
    if not problems:
        return
    if len(problems) == 1:
        raise ConfigError(problems[0], hint=hint)
    listed = "\n".join(f"  - {problem}" for problem in problems)
    raise ConfigError(f"{len(problems)} problems in the configuration:\n{listed}", hint=hint)
