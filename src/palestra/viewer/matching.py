"""The rollouts or tasks that match a query, without a server: for `--text`, `--json` and `--export`."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from palestra.analysis import QueryError, parse_query
from palestra.metrics import IntArray
from palestra.viewer.catalog import OpenRun
from palestra.viewer.index import IndexSnapshot, RowTable
from palestra.viewer.pages.tables import SHOWN_OF_TASKS
from palestra.viewer.query import search_text

ROLLOUT_FIELDS: Final = (
    "task",
    "rollout",
    "outcome",
    "reward",
    "agent",
    "tokens.out",
    "error_message",
    "last_answer",
)
TASK_FIELDS: Final = (*SHOWN_OF_TASKS, "prompt")
ROWS_AT_ONCE: Final = 1_000


def whole_snapshot(run: OpenRun) -> IndexSnapshot:
    """Return a run, all of it indexed."""
    run.wait()
    return run.snapshot


def matching_rows(snapshot: IndexSnapshot, query: str) -> IntArray:
    """Return the rows that match, `text:` too. Raises QueryError."""
    parsed = parse_query(query)
    candidates = snapshot.rollouts.select(parsed)
    if not parsed.texts:
        return candidates
    hits = [
        hit.row for hit in search_text(snapshot, parsed, candidates) if not isinstance(hit, int)
    ]
    chosen = set(hits)
    return np.array([row for row in candidates.tolist() if row in chosen], dtype=np.int64)


def asks_for_tasks(snapshot: IndexSnapshot, query: str) -> bool:
    """Whether a query names a field that tasks have and rollouts lack, such as `pass_rate`."""
    parsed = parse_query(query)
    for table, answer in ((snapshot.rollouts, False), (snapshot.tasks, True)):
        with contextlib.suppress(QueryError):
            parsed.check_fields([*table.fields])
            return answer
    return False


def matching_values(
    table: RowTable, rows: Sequence[int] | IntArray, fields: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the values of rows, by field, in the order of `rows`. Fields that the table lacks are
    left out.
    """
    names = [name for name in fields if name in table.fields]
    numbers = np.asarray(rows, dtype=np.int64)
    for start in range(0, len(numbers), ROWS_AT_ONCE):
        yield from table.page(numbers, start=start, count=ROWS_AT_ONCE, fields=names).rows
