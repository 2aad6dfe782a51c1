"""Which tasks of a run are worth training on, as a dataset of their own.

`select` judges every task by its pass rate; `export` writes the kept ones and where they come from.
"""

from palestra.analysis.selection.export import check_destination, export, origin, provenance_path
from palestra.analysis.selection.select import (
    Band,
    Criteria,
    JudgedTask,
    Selection,
    Verdict,
    rollouts_to_decide,
    select,
)

__all__ = [
    "Band",
    "Criteria",
    "JudgedTask",
    "Selection",
    "Verdict",
    "check_destination",
    "export",
    "origin",
    "provenance_path",
    "rollouts_to_decide",
    "select",
]
