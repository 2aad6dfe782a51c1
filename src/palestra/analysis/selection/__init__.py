"""Which tasks of a run are worth training on, as a dataset of their own.

`selection_of` judges every task by its pass rate; `export_selection` writes the kept ones and where they come from.
"""

from palestra.analysis.selection.export import (
    check_destination,
    export_selection,
    provenance_path,
    selection_origin,
)
from palestra.analysis.selection.select import (
    JudgedTask,
    RateBand,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    rollouts_to_decide,
    selection_of,
)

__all__ = [
    "JudgedTask",
    "RateBand",
    "Selection",
    "SelectionCriteria",
    "TaskVerdict",
    "check_destination",
    "export_selection",
    "provenance_path",
    "rollouts_to_decide",
    "selection_of",
    "selection_origin",
]
