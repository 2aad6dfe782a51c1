"""How a setting is spelled on a command line, beside its declaration.

A field of a settings model that has a description is a flag too: its type, default, bounds and
help come from the field. `Flag` in the annotation says what differs from `--name-of-the-field`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """`names`: `("--input", "-i")`; empty means the field's name, with dashes."""

    names: tuple[str, ...] = ()
    metavar: str | None = None
    argument: bool = False
    """Whether it is given by its position, without a name."""


def flag(*names: str, metavar: str | None = None) -> Flag:
    """An option with these spellings."""
    return Flag(names, metavar)
