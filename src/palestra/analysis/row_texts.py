"""Reads what a run's frame does not hold of the top level of its rows: their texts, such as the `topic`
of a task or what a verifier added, and the numbers of the tasks of rollouts without a score.
"""

from array import array
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palestra.analysis.frame import RowPositions, RunFrame
from palestra.analysis.scan import RowReader
from palestra.metrics import REWARD, ColumnBuilder, FloatArray
from palestra.schema import REWARD_COMPONENTS

LONGEST_TEXT: Final = 1_000
"""The largest number of characters of a text that is read."""

TextColumns = Mapping[str, npt.NDArray[Any]]
"""Per field, a text for each request; None without one."""

NumberColumns = Mapping[str, FloatArray]
"""Per field, a number for each request; NaN without one."""

_OF_RESULTS: Final = frozenset({REWARD, REWARD_COMPONENTS})
"""The fields that a verifier sets. In a task they are something else."""


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


def read_unscored_numbers(frame: RunFrame) -> NumberColumns:
    """Return the numbers in the task rows of the requested rollouts without a score, booleans as 0 and
    1; NaN for the scored ones. The files of the tasks are read again.
    """
    unscored, row_places = ~frame.requests.scored, frame.requests.places
    columns: dict[str, FloatArray] = {}
    for file, path in enumerate(row_places.files):
        in_file = np.flatnonzero(unscored & (row_places.file == file))
        if not len(in_file):
            continue
        builder, offsets = ColumnBuilder(), array("q")
        for block in RowReader().blocks(path, torn=[], may_be_empty=True):
            fields = {n: values for n, values in block.fields.items() if n not in _OF_RESULTS}
            builder.add(fields, len(block))
            offsets.extend(block.offsets)
        rows = np.searchsorted(np.array(offsets), row_places.offset[in_file])
        for name, numbers in builder.build().take(rows).values.items():
            if not np.isnan(numbers).all():
                column = columns.setdefault(name, np.full(len(row_places), np.nan))
                column[in_file] = numbers
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
