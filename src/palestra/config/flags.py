"""Declare how a setting is written on a command line, next to the setting itself.

A field of a settings model that has a description is also a flag. Its type, default, bounds and
help come from the field. A `Flag` in the field's annotation replaces the default
`--name-of-the-field`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """The command-line form of a field. `names`: `("--input", "-i")`; empty means the field's name,
    with dashes.
    """

    names: tuple[str, ...] = ()
    metavar: str | None = None
    argument: bool = False
    """Whether the value is a positional argument, without a flag name."""


def flag(*names: str, metavar: str | None = None) -> Flag:
    """Return a `Flag` with these names."""
    return Flag(names, metavar)
