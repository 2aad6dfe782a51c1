"""Report every problem of one step in one error."""

from collections.abc import Sequence

from palestra.errors import ConfigError, Problem


def raise_problems(problems: Sequence[Problem | str], *, hint: str = "") -> None:
    """Do nothing without problems; else raise one `ConfigError` that lists them all."""
    if not problems:
        return
    told = tuple(Problem(item, hint=hint) if isinstance(item, str) else item for item in problems)
    if len(told) == 1:
        raise ConfigError(told[0].message, hint=hint, cause=told[0].cause, problems=told)
    listed = "\n".join(f"  - {problem.message}" for problem in told)
    message = f"{len(told)} problems in the configuration:\n{listed}"
    raise ConfigError(message, hint=hint, problems=told)
