"""Reads the texts at the top level of a run's rows: the `topic` of a task, what a verifier added."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palestra.analysis.frame import RowPositions, RunFrame
from palestra.analysis.scan import RowReader

LONGEST_TEXT: Final = 1_000
"""The largest number of characters of a text that is read."""

TextColumns = Mapping[str, npt.NDArray[Any]]
"""Per field, a text for each request; None without one."""


def read_texts(frame: RunFrame) -> TextColumns:
    """Return the texts of each requested rollout: those of its scored row, else of its task row.

    The files are read again. A text of more than LONGEST_TEXT characters counts as none.
    """
    columns = dict(_texts_of(frame.requests.places))
    scored = np.flatnonzero(frame.requests.scored)
    for name, texts in _texts_of(frame.rollout_places).items():
        column = columns.setdefault(name, np.full(len(frame.requests), None, object))
        is_there = texts != np.array(None)
        column[scored[is_there]] = texts[is_there]
    return columns


def _texts_of(row_places: RowPositions) -> TextColumns:
    """Return the texts of each of the rows."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for file, path in enumerate(row_places.files):
        in_file = np.flatnonzero(row_places.file == file)
        rows = dict(zip(row_places.offset[in_file].tolist(), in_file.tolist(), strict=True))
        for block in RowReader().blocks(path, torn=[], may_be_empty=True):
            at = [rows.get(offset) for offset in block.offsets]
            for name, values in block.fields.items():
                for row, value in zip(at, values, strict=True):
                    if row is not None and isinstance(value, str) and len(value) <= LONGEST_TEXT:
                        if name not in columns:
                            columns[name] = np.full(len(row_places), None, object)
                        columns[name][row] = value
    return columns
