"""The tables of rollouts and tasks: pages, columns, facets, histograms, and search in transcripts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from palestra.analysis import Query, parse_query
from palestra.errors import ConfigError
from palestra.metrics import IntArray
from palestra.schema import EXTRACTED_ANSWER
from palestra.viewer.catalog import OpenRun
from palestra.viewer.index import (
    FieldKind,
    IndexSnapshot,
    RowTable,
    RunPart,
    TableField,
    ValueCount,
)
from palestra.viewer.pages.runs import base_of
from palestra.viewer.pages.terms import term
from palestra.viewer.query import TextHit, search_text
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.base import Cell, TaskName
from palestra.viewer.replies.tables import (
    PAGE_ROWS,
    Facet,
    Facets,
    FacetValue,
    FieldHistogram,
    Histograms,
    RolloutTable,
    SearchHit,
    SearchProgress,
    TableColumn,
    TableColumns,
    TableRow,
    TaskRow,
    TaskTable,
)
from palestra.viewer.replies.tasks import GROUP_ROLLOUTS
from palestra.viewer.requests import PageRequest

SHOWN_OF_ROLLOUTS: Final = (
    "task",
    "rollout",
    "outcome",
    "reward",
    "last_answer",
    "turns",
    "tools.count",
    "tokens.in",
    "tokens.out",
    "attempts",
)
SHOWN_OF_TASKS: Final = ("task", "n", "solved", "pass_rate", "mean", "std", "learnability")
FACETS_OF_ROLLOUTS: Final = ("outcome", "family", "agent", "class", "layer")
FACETS_OF_TASKS: Final = ("solved", "family")
BRUSHES_OF_ROLLOUTS: Final = ("reward", "tokens.out", "turns")
BRUSHES_OF_TASKS: Final = ("pass_rate", "mean", "n")
MOST_FACETS: Final = 50
MOST_HITS: Final = 10_000
PROMPT_CHARACTERS: Final = 200
_KINDS: Final[Mapping[FieldKind, Literal["number", "text", "boolean"]]] = {
    FieldKind.NUMBER: "number",
    FieldKind.BOOLEAN: "boolean",
}


def columns(request: PageRequest) -> TableColumns:
    """Answer the columns that each table can show."""
    snapshot = request.run.snapshot
    return TableColumns(
        rollouts=_columns(snapshot.rollouts, _shown_of_rollouts(snapshot.rollouts)),
        tasks=_columns(snapshot.tasks, SHOWN_OF_TASKS),
    )


def _shown_of_rollouts(table: RowTable) -> list[str]:
    """Return the usual columns, with the answer that the verifier extracted where rows have one."""
    extracted = {"last_answer": EXTRACTED_ANSWER} if EXTRACTED_ANSWER in table.fields else {}
    return [extracted.get(name, name) for name in SHOWN_OF_ROLLOUTS]


def _columns(table: RowTable, usual_names: Sequence[str]) -> list[TableColumn]:
    first = [table.fields[name] for name in usual_names if name in table.fields]
    others = [field for name, field in table.fields.items() if name not in usual_names]
    return [_column(field, is_shown=field.name in usual_names) for field in (*first, *others)]


def _column(field: TableField, *, is_shown: bool) -> TableColumn:
    return TableColumn(
        name=field.name,
        kind=_KINDS.get(field.kind, "text"),
        label=field.name,
        shown=is_shown,
        sortable=field.kind is not FieldKind.LONG,
    )


def _chosen_columns(
    table: RowTable, usual_names: Sequence[str], request: PageRequest
) -> list[TableColumn]:
    names = [name for name in request.text("columns").split(",") if name]
    all_columns = _columns(table, usual_names)
    if not names:
        return [column for column in all_columns if column.shown]
    by_name = {column.name: column for column in all_columns}
    for name in names:
        if name not in by_name:
            raise ConfigError(f"there is no column {name[:80]!r}")
    return [by_name[name] for name in names]


def matches(table: RowTable, query: str, sort: str = "") -> IntArray:
    """Return the numbers of the rows that match a query, sorted. Raises ConfigError."""
    rows = table.select(parse_query(query))
    return table.sort(rows, sort) if sort else rows


def rollouts(request: PageRequest) -> RolloutTable:
    """Answer a page of the rollouts that match."""
    opened = request.run
    snapshot = opened.snapshot
    table = snapshot.rollouts
    query = parse_query(request.text("q"))
    chosen = _chosen_columns(table, _shown_of_rollouts(table), request)
    rows = matches(table, request.text("q"), request.text("sort"))
    names = [column.name for column in chosen]
    fields = list(dict.fromkeys([*names, "task", "rollout"]))
    start, count = request.integer("offset"), _limit(request)
    page = table.page(rows, start=start, count=count, fields=fields)
    return RolloutTable(
        columns=chosen,
        rows=[
            _rollout_row(snapshot, number, values, names)
            for number, values in zip(page.numbers, page.rows, strict=True)
        ],
        offset=start,
        matches=len(rows),
        total=len(table),
        absent=[] if len(rows) else table.absent_values(request.text("q")),
        base=base_of(opened),
        streaming=bool(query.texts),
    )


def _limit(request: PageRequest) -> int:
    return min(request.integer("limit", 100), PAGE_ROWS)


def _rollout_row(
    snapshot: IndexSnapshot, number: int, values: Mapping[str, Any], names: Sequence[str]
) -> TableRow:
    return TableRow(
        row=int(number),
        task=values["task"],
        rollout=None if values["rollout"] is None else int(values["rollout"]),
        cells=[cell(values[name]) for name in names],
        marks=marks_of(snapshot, int(number)),
    )


def marks_of(snapshot: IndexSnapshot, row: int) -> list[str]:
    """Return what is unusual about a row of a rollout, one phrase each."""
    table = snapshot.rollouts
    marks = []
    if "duplicate" in table.fields and table.numbers("duplicate")[row] == 1:
        marks.append("this key occurs more than once")
    if (
        snapshot.place(row, RunPart.INPUT) is None
        and snapshot.place(row, RunPart.RESULT) is not None
    ):
        marks.append("no input")
    return marks


def cell(value: Any) -> Cell:
    """Return a value as a cell; several texts are joined."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value  # type: ignore[no-any-return]


def tasks(request: PageRequest) -> TaskTable:
    """Answer a page of the tasks that match."""
    opened = request.run
    snapshot = opened.snapshot
    table = snapshot.tasks
    chosen = _chosen_columns(table, SHOWN_OF_TASKS, request)
    rows = matches(table, request.text("q"), request.text("sort"))
    names = [column.name for column in chosen]
    fields = list(dict.fromkeys([*names, "task", "prompt"]))
    start = request.integer("offset")
    page = table.page(rows, start=start, count=_limit(request), fields=fields)
    rewards = snapshot.rollouts.numbers("reward") if len(snapshot.rollouts) else np.empty(0)
    return TaskTable(
        columns=chosen,
        rows=[
            TaskRow(
                task=values["task"],
                cells=[cell(values[name]) for name in names],
                prompt=str(values["prompt"] or "")[:PROMPT_CHARACTERS],
                rewards=best_first(rewards[snapshot.rollouts_of(int(number))]),
            )
            for number, values in zip(page.numbers, page.rows, strict=True)
        ],
        offset=start,
        matches=len(rows),
        total=len(table),
        absent=[] if len(rows) else table.absent_values(request.text("q")),
        base=base_of(opened),
    )


def best_first(rewards: Any) -> list[float]:
    """Return the rewards of a task, the highest first, at most 64."""
    present = rewards[~np.isnan(rewards)]
    return [float(reward) for reward in np.sort(present)[::-1][:GROUP_ROLLOUTS]]


def by_reward(snapshot: IndexSnapshot, rows: IntArray) -> IntArray:
    """Return rollouts, the highest reward first, those without a score last.

    The first and the last scored one stand for the best and the worst. Where others have the same
    reward, they are not cut off: a cut answer does not show what made it good or bad.
    """
    table = snapshot.rollouts
    rewards = table.numbers("reward")[rows]
    scored = rewards[~np.isnan(rewards)]
    is_cut = np.isin(rows, table.select("truncated:true") if "truncated" in table.fields else [])
    is_worst = np.zeros(len(rows), np.bool_)
    if len(scored) and scored.min() < scored.max():
        is_worst = rewards == scored.min()
    return rows[np.lexsort((is_cut != is_worst, np.where(np.isnan(rewards), np.inf, -rewards)))]


def _table_of(request: PageRequest) -> tuple[OpenRun, RowTable, bool]:
    kind = request.text("of", "rollouts")
    if kind not in {"rollouts", "tasks"}:
        raise ConfigError(f"of is {kind[:40]!r}, neither rollouts nor tasks")
    opened = request.run
    snapshot = opened.snapshot
    is_tasks = kind == "tasks"
    return opened, snapshot.tasks if is_tasks else snapshot.rollouts, is_tasks


def facets(request: PageRequest) -> Facets:
    """Answer how many of the matching rows have each value."""
    opened, table, is_tasks = _table_of(request)
    rows = matches(table, request.text("q"))
    names = FACETS_OF_TASKS if is_tasks else FACETS_OF_ROLLOUTS
    counted = [_facet(table, rows, name) for name in names if name in table.fields]
    return Facets(facets=[f for f in counted if f.values], base=base_of(opened))


def _facet(table: RowTable, rows: IntArray, name: str) -> Facet:
    values = table.facet(rows, name, limit=MOST_FACETS)
    return Facet(
        field=name,
        values=[_facet_value(name, value) for value in values if value.value is not None],
        others=len(rows) - sum(value.count for value in values),
    )


def _facet_value(field: str, value: ValueCount) -> FacetValue:
    name = value.value or ""
    return FacetValue(name=name, count=value.count, query=term(field, name))


def histograms(request: PageRequest) -> Histograms:
    """Answer the matching rows by the value of some numbers, and all rows in the same bins."""
    opened, table, is_tasks = _table_of(request)
    rows = matches(table, request.text("q"))
    usual = BRUSHES_OF_TASKS if is_tasks else BRUSHES_OF_ROLLOUTS
    names = [name for name in request.text("fields").split(",") if name]
    chosen = names or [name for name in usual if name in table.fields]
    usual_names = [_histogram(table, rows, name) for name in chosen]
    return Histograms(
        histograms=[h for h in usual_names if sum(h.all_counts)], base=base_of(opened)
    )


def _histogram(table: RowTable, rows: IntArray, name: str) -> FieldHistogram:
    histogram = table.histogram(rows, name)
    return FieldHistogram(
        field=name,
        edges=[float(edge) for edge in histogram.edges],
        counts=list(histogram.counts),
        all_counts=list(histogram.all_counts),
        missing=histogram.absent,
    )


# Transcripts


def search(request: PageRequest, stop: ReadStop) -> Iterator[SearchProgress]:
    """Yield the rollouts whose transcripts match, as they are read."""
    snapshot = request.run.snapshot
    query = parse_query(request.text("q"))
    candidates = snapshot.rollouts.select(query)
    hits: list[SearchHit] = []
    count = searched = 0
    for hit in search_text(snapshot, query, candidates) if query.texts else ():
        stop.check()
        if isinstance(hit, int):
            searched = hit
            yield _search_progress(hits, searched, candidates)
            hits = []
            continue
        hits.append(_search_hit(snapshot, hit, query))
        count += 1
        if count >= MOST_HITS:
            yield _search_progress(hits, searched, candidates, is_done=True, limit_reached=True)
            return
    yield _search_progress(hits, searched, candidates, is_done=True)


def _search_progress(
    hits: list[SearchHit],
    searched: int,
    candidates: IntArray,
    *,
    is_done: bool = False,
    limit_reached: bool = False,
) -> SearchProgress:
    return SearchProgress(
        hits=hits,
        searched=searched,
        candidates=len(candidates),
        done=is_done,
        limit_reached=limit_reached,
    )


def _search_hit(snapshot: IndexSnapshot, hit: TextHit, query: Query) -> SearchHit:
    task, rollout = key_of_row(snapshot, hit.row)
    before, match, after = _around(hit.excerpt, query.texts)
    return SearchHit(
        row=hit.row, task=task, rollout=rollout, before=before, match=match, after=after
    )


def _around(excerpt: str, words: Sequence[str]) -> tuple[str, str, str]:
    folded = excerpt.lower()
    for word in words:
        at = folded.find(word.lower())
        if at >= 0 and len(folded) == len(excerpt):
            return excerpt[:at], excerpt[at : at + len(word)], excerpt[at + len(word) :]
    return excerpt, "", ""


def key_of_row(snapshot: IndexSnapshot, row: int) -> tuple[TaskName | None, int | None]:
    """Return task and rollout of a row; None for a row without indices."""
    key = snapshot.key(row)
    return (None, None) if key is None else (key[0], key[1])
