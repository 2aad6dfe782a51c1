"""The tables of an index, the types of their columns, and collecting rows of them.

The columns of the tables `inputs`, `results` and `failures` are in file order, one value per row. A
task that is a plain integer is stored as it is, any other as `-2 - n`, where n is the number of its
JSON text in the heap `texts`; NO_TASK marks a row without indices.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palestra.viewer.index.storage import StoredColumns

NO_TASK: Final = -1
NO_TEXT: Final = -1
BETWEEN: Final = "\x1f"
"""Stands around each name of the tools of a rollout."""

_OF_EVERY_ROW: Final[Mapping[str, npt.DTypeLike]] = {
    "file": np.uint32,
    "offset": np.int64,
    "length": np.uint32,
    "line": np.uint32,
    "task": np.int64,
    "rollout": np.int64,
    "agent": np.int32,
    "agent_type": np.int32,
    "family": np.int32,
}
_TYPES: Final[Mapping[str, Mapping[str, npt.DTypeLike]]] = {
    "inputs": _OF_EVERY_ROW,
    "results": {
        **_OF_EVERY_ROW,
        "truncated": np.bool_,
        "empty": np.bool_,
        "broken_tools": np.bool_,
        "outside_rules": np.bool_,
        "turns": np.int32,
        "calls": np.int32,
        "tools": np.int32,
        "scored": np.bool_,
    },
    "failures": {
        **_OF_EVERY_ROW,
        "attempt": np.int32,
        "class": np.int32,
        "layer": np.int32,
        "cause": np.int32,
        "terminal": np.bool_,
        "retriable": np.bool_,
        "answered": np.bool_,
        "reverify": np.int32,
        "needs_session": np.bool_,
        "names_judge": np.bool_,
    },
    "prompts": {"task": np.int64, "fingerprint": np.uint8},
    "texts": {"heap": np.uint8, "ends": np.int64},
    "answers": {"heap": np.uint8, "ends": np.int64},
    "messages": {"heap": np.uint8, "ends": np.int64},
    "asked": {"heap": np.uint8, "ends": np.int64},
}
COLUMN_TYPES: Final = {
    f"{table}.{column}": kind
    for table, columns in _TYPES.items()
    for column, kind in columns.items()
}
"""The type of every column that does not depend on the rows."""


class TableWriter:
    """Collects the columns of one table until `flush`."""

    def __init__(self, columns: StoredColumns, name: str) -> None:
        self._columns, self._name = columns, name
        self._parts: dict[str, list[Any]] = {}
        self.rows = 0
        """The rows that are collected and not yet flushed."""

    def add(self, rows: int, values: Mapping[str, Any]) -> None:
        """Add rows. `values`: per column, an array."""
        for column, array in values.items():
            self._parts.setdefault(column, []).append(array)
        self.rows += rows

    def flush(self) -> None:
        """Write what was collected. Raises OSError or StorageFull."""
        for column, parts in self._parts.items():
            kind = _TYPES[self._name][column]
            self._columns.append(f"{self._name}.{column}", np.concatenate(parts).astype(kind))
        self._parts, self.rows = {}, 0
