"""What an index holds, in a form that two indexes of equal files share."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from palestra.viewer.index import Index, IndexSnapshot, RunPart, open_index


@contextmanager
def indexed(output: Path, cache: Path, **options: Any) -> Iterator[IndexSnapshot]:
    """The snapshot of everything in the files of one run."""
    with open_index([output], cache=cache, **options) as index:
        yield index.refresh(inf)


def content(snapshot: IndexSnapshot) -> dict[str, Any]:
    """All rows of both tables, where their rows are, and the lines that are no rows."""
    rollouts, tasks = snapshot.rollouts, snapshot.tasks
    fields, task_fields = sorted(rollouts.fields), sorted(tasks.fields)
    everything = rollouts.select("")
    return {
        "fields": [rollouts.fields[name] for name in fields],
        "rollouts": rollouts.page(everything, count=10**6, fields=fields).rows,
        "tasks": tasks.page(tasks.select(""), count=10**6, fields=task_fields).rows,
        "places": [[snapshot.place(row, part) for part in RunPart] for row in everything.tolist()],
        "attempts": [snapshot.attempts(row) for row in everything.tolist()],
        "problems": snapshot.problems,
        "count": snapshot.problem_count,
        "notices": snapshot.notices,
    }


def fresh(output: Path, cache: Path) -> dict[str, Any]:
    """The content of a new index."""
    with indexed(output, cache) as snapshot:
        return content(snapshot)


def keys(index: Index | IndexSnapshot, query: str = "") -> list[tuple[Any, int] | None]:
    """The keys of the rollouts that match."""
    snapshot = index.snapshot if isinstance(index, Index) else index
    return [snapshot.key(row) for row in snapshot.rollouts.select(query).tolist()]
