"""Says which values a query asks for that no row has, for a query that matches nothing."""

from collections.abc import Callable, Mapping
from typing import Final

from palestra.analysis.queries.tree import MANY, ComparedTerm, Query

_MOST_VALUES: Final = 8
"""How many present values one sentence lists."""

Counts = Callable[[str], Mapping[str, int]]
"""Returns how many rows have each text of a field, the most frequent first; empty for a field of
numbers, and for one that no row has."""


def absent_values(query: Query, counts: Counts) -> list[str]:
    """Return one sentence for each text of the query that no row has in its field: the values that
    are there. Of the fields without any value, only those of `MANY` are named: a row never lacks
    them.
    """
    terms = (x for x in query.leaves() if isinstance(x, ComparedTerm) and x.operator == "=")
    return [
        f"no row has {term.field}:{term.text}; its values here: {_listed(present) or 'none'}"
        for term in terms
        if (present := counts(term.field)) or term.field in MANY
        if not any(map(term.of_text, present))
    ]


def _listed(present: Mapping[str, int]) -> str:
    listed = [f"{value} ({count:,})" for value, count in [*present.items()][:_MOST_VALUES]]
    others = len(present) - _MOST_VALUES
    return ", ".join(listed) + (f", and {others:,} others" if others > 0 else "")
