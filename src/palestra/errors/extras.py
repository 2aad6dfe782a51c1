"""Errors of imports that cannot succeed as the package is installed: an optional extra is missing, or
Palestra does not provide the name.
"""

from importlib.util import find_spec

from palestra.errors.tree import ConfigError


class MissingExtra(ImportError):
    """A module of Palestra needs a library of an optional extra, which is not installed."""

    def __init__(self, reason: str, extra: str) -> None:
        """`reason`: what needs which library."""
        self.reason, self.extra = reason, extra
        super().__init__(f"{reason}: {self.install}")

    @property
    def install(self) -> str:
        """The command that installs the library."""
        return f"pip install 'palestra[{self.extra}]'"

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.reason, self.extra)


class NotProvided(ImportError):
    """Palestra does not provide a name of another product. No package does."""


def not_provided_text(name: str, owner: str = "") -> str:
    """Return the sentence for a name that Palestra does not provide. `owner`: the product that has
    it, in the possessive form; empty for Palestra's own names.
    """
    return f"{owner} `{name}` is not provided by Palestra".lstrip()


class ModuleNotProvided(NotProvided, ModuleNotFoundError):
    """Palestra does not provide a module of another product."""


def require_extra(library: str, *, extra: str, what: str) -> None:
    """Raise ConfigError that names the extra: `library` is not installed. `what` needs it."""
    if find_spec(library) is None:
        raise ConfigError(
            f"{what} needs {library}, which is not installed",
            hint=f"pip install 'palestra[{extra}]'",
        )
