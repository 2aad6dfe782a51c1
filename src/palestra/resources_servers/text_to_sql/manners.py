"""`Manner`: what one of the variants has that not all have.

What tells two queries apart may be rare when rows are drawn alone: a name that is another row's,
many rows that match, one row that most others refer to. So some variants are made for it.
"""

from dataclasses import dataclass

MANY = 60
"""Rows more of each table, where there are to be more than a LIMIT by guess lets through."""
FAVOURED_SHARE = 0.5
"""How many references go to one row, where one is favoured."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a variant is made."""

    exchanges: bool
    """Names and keys that queries compare are given to other rows of the table."""
    exchanges_only: bool
    """And nothing else is changed: every value that was there still is."""
    more: int
    """Rows of each table beyond those that are drawn."""
    favours: bool
    """Many references go to one row."""


def manner_of(number: int, *, can_exchange: bool) -> Manner:
    """The manner of the variant of a number. `can_exchange`: whether a table has what to."""
    exchanges_only = can_exchange and number % 10 == 2
    return Manner(
        exchanges=exchanges_only or (can_exchange and number % 3 == 0),
        exchanges_only=exchanges_only,
        more=MANY if number % 20 == 7 else 0,
        favours=number % 4 == 1,
    )
