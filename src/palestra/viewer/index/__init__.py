"""The index of a run: numpy columns and texts that answer queries without reading the rows again.

`open_index` finds or builds the index of one run. `Index.refresh` reads what was appended since and
returns a `IndexSnapshot`, which never changes. A snapshot has two tables, `rollouts` and `tasks`; a
table selects, sorts, counts and pages its rows. Rows of the run's files are read by their place:
`read_row`. `SplitRow` splits a row into items; `RowPieces` reads single items of a row that was split.

Glossary: a *place* is a file, a byte offset, a length and a line. A *row number* is a position in a
table of one snapshot; keys (task, rollout) stay the same between snapshots, row numbers do not.
"""

from palestra.viewer.index.bounds import USUAL_BOUNDS, IndexBounds
from palestra.viewer.index.opening import forget, open_index
from palestra.viewer.index.outcome_lines import row_of_outcome
from palestra.viewer.index.outline import (
    SplitItem,
    SplitRow,
    TextPart,
    TextRange,
    fields_of,
    items_of,
    split_item,
    texts_of,
    whole_text,
)
from palestra.viewer.index.packed import RunChanged
from palestra.viewer.index.places import IndexedPlace, LineProblem, RunPart, read_row
from palestra.viewer.index.refreshing import Index, IndexProgress
from palestra.viewer.index.row_pieces import RowPieces
from palestra.viewer.index.snapshot import IndexSnapshot
from palestra.viewer.index.tables import (
    FieldKind,
    Histogram,
    RowTable,
    TableField,
    TablePage,
    ValueCount,
)

__all__ = [
    "USUAL_BOUNDS",
    "FieldKind",
    "Histogram",
    "Index",
    "IndexBounds",
    "IndexProgress",
    "IndexSnapshot",
    "IndexedPlace",
    "LineProblem",
    "RowPieces",
    "RowTable",
    "RunChanged",
    "RunPart",
    "SplitItem",
    "SplitRow",
    "TableField",
    "TablePage",
    "TextPart",
    "TextRange",
    "ValueCount",
    "fields_of",
    "forget",
    "items_of",
    "open_index",
    "read_row",
    "row_of_outcome",
    "split_item",
    "texts_of",
    "whole_text",
]
