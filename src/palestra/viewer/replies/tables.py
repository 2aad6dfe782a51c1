"""The replies about the tables of rollouts and tasks."""

from typing import Literal

from palestra.viewer.replies.base import Base, Cell, Reply, TaskName

PAGE_ROWS = 500
"""The largest number of rows in one page of a table."""


class TableColumn(Reply, frozen=True, kw_only=True):
    """One column of a table."""

    name: str
    """The name in queries."""
    kind: Literal["number", "text", "boolean"]
    label: str
    shown: bool
    """Whether the table shows it unless the reader chooses."""
    sortable: bool = True


class TableColumns(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/columns`: the columns that each table can show."""

    rollouts: list[TableColumn]
    tasks: list[TableColumn]


class TableRow(Reply, frozen=True, kw_only=True):
    """One row of a table of rollouts. `key` and its parts are null for a line without indices."""

    row: int
    task: TaskName | None
    rollout: int | None
    cells: list[Cell]
    marks: list[str]
    """What is unusual about this row, such as `duplicate key`."""


class RolloutTable(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/rollouts`: a page of the rollouts that match."""

    columns: list[TableColumn]
    rows: list[TableRow]
    offset: int
    matches: int
    total: int
    absent: list[str]
    """Why nothing matches: texts that the query asks for and no row has. Empty when rows match."""
    base: Base
    streaming: bool
    """Whether the query has `text:`: the matches then come from `/api/r/{run}/search`, and this
    page has the candidates."""


class TaskRow(Reply, frozen=True, kw_only=True):
    """One row of the table of tasks. `rewards`: of its rollouts, the highest first, at most 64."""

    task: TaskName
    cells: list[Cell]
    prompt: str
    """The first 200 characters of the prompt."""
    rewards: list[float]


class TaskTable(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/tasks`: a page of the tasks that match."""

    columns: list[TableColumn]
    rows: list[TaskRow]
    offset: int
    matches: int
    total: int
    absent: list[str]
    """As in `RolloutTable`."""
    base: Base


class FacetValue(Reply, frozen=True, kw_only=True):
    """One value of a facet; `query` is the term that selects it."""

    name: str
    count: int
    query: str


class Facet(Reply, frozen=True, kw_only=True):
    """One facet: its most frequent values, at most 50, and how many others there are."""

    field: str
    values: list[FacetValue]
    others: int


class Facets(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/facets`: outcome, family, agent, class, layer, solved; empty ones are left out."""

    facets: list[Facet]
    base: Base


class FieldHistogram(Reply, frozen=True, kw_only=True):
    """The rows by the value of one number. `edges` has one more entry than `counts`."""

    field: str
    edges: list[float]
    counts: list[int]
    """Of the rows that match."""
    all_counts: list[int]
    """Of all rows, in the same bins."""
    missing: int


class Histograms(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/histograms`: one histogram per requested number."""

    histograms: list[FieldHistogram]
    base: Base


class SearchHit(Reply, frozen=True, kw_only=True):
    """One row whose transcript holds the text."""

    row: int
    task: TaskName | None
    rollout: int | None
    before: str
    match: str
    after: str


class SearchProgress(Reply, frozen=True, kw_only=True):
    """One line of the stream `/api/r/{run}/search`: hits since the last line, and how far it is."""

    hits: list[SearchHit]
    searched: int
    candidates: int
    done: bool
    limit_reached: bool
