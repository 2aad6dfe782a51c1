"""Check that libraries from optional extras of the package are installed."""

from importlib.util import find_spec

from palestra.errors.tree import ConfigError


def require_extra(library: str, *, extra: str, what: str) -> None:
    """Raise ConfigError that names the extra: `library` is not installed. `what` needs it."""
    if find_spec(library) is None:
        raise ConfigError(
            f"{what} needs {library}, which is not installed",
            hint=f"pip install 'palestra[{extra}]'",
        )
