"""Reads candidate rows from the files and yields those whose transcripts contain a text."""

from collections.abc import Iterator
from dataclasses import dataclass

from palestra.analysis import Query
from palestra.metrics import IntArray
from palestra.viewer.index import Snapshot


@dataclass(frozen=True, slots=True)
class TextHit:
    """A rollout that matches the whole query. `item`: the number of the first item that contains a
    text of the query, as in `outline`, and `excerpt` the text around it; -1 and empty when the query
    matches because a text is absent.
    """

    row: int
    item: int
    excerpt: str


def search_text(snapshot: Snapshot, query: Query, candidates: IntArray) -> Iterator[TextHit | int]:
    """Yield hits among the rollouts `candidates`, in file order. Texts are compared without case.

    `candidates`: what `Table.select` returned for this query. After each 64 MB the
    number of bytes read so far is yielded, so that a caller can show progress and stop. Raises
    RunChanged: the files changed.
    """
    raise NotImplementedError
