"""Reads single rows again, by their positions. Rows of compressed files are first copied to a
temporary file.

A compressed file cannot be read from the middle. So one pass over it copies only the requested rows
to a temporary file.
"""

import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, cast

import msgspec
import numpy as np
import orjson

from palestra.analysis.frame import RowPositions
from palestra.analysis.scan import decode_value, split_row
from palestra.datasets import open_rows
from palestra.errors import InputDataError
from palestra.metrics import INDICES, IntArray, TaskIndex
from palestra.schema import BUFFER_BYTES, TASK_INDEX, JsonDict, is_compressed


class SampleReader:
    """Reads selected rows of open files, in any order."""

    def __init__(
        self, row_places: RowPositions, files: Mapping[int, BinaryIO], offset: IntArray
    ) -> None:
        self._places = row_places
        self._files = files
        self._at = list(zip(row_places.file.tolist(), offset.tolist(), strict=True))

    def read(self, row: int, task: TaskIndex) -> JsonDict:
        """Return a row without its indices. `row`: its position among the rows the reader was
        opened for.

        Raises InputDataError: the row does not belong to `task`, so the file has changed.
        """
        try:
            fields = self._fields(self._text(row), row, task)
            return {name: decode_value(raw) for name, raw in fields.items()}
        except UnicodeDecodeError as error:
            raise self._no_text(row, task, error) from error

    def fragments(self, row: int, task: TaskIndex) -> JsonDict:
        """Like `read`, but return values for `writing.encode`: the original bytes where possible."""
        text = self._text(row)
        if b"NaN" in text or b"Infinity" in text:
            return self.read(row, task)  # Python's own json may have written what is no JSON
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise self._no_text(row, task, error) from error
        fields = self._fields(text, row, task)
        return {name: orjson.Fragment(bytes(raw)) for name, raw in fields.items()}

    def _text(self, row: int) -> bytes:
        file, offset = self._at[row]
        lines = self._files[file]
        lines.seek(offset)
        return lines.readline()

    def _fields(self, text: bytes, row: int, task: TaskIndex) -> dict[str, msgspec.Raw]:
        fields = split_row(text)
        if fields is None or TASK_INDEX not in fields or decode_value(fields[TASK_INDEX]) != task:
            raise InputDataError(
                f"{self._places.files[self._at[row][0]]} changed while it was being profiled: "
                f"task {task} is no longer at byte {self._places.offset[row]}",
                hint="profile the run again when no process writes to the file",
            )
        return {name: raw for name, raw in fields.items() if name not in INDICES}

    def _no_text(self, row: int, task: TaskIndex, error: UnicodeDecodeError) -> InputDataError:
        return InputDataError(
            f"{self._places.files[self._at[row][0]]}: the row of task {task} at byte "
            f"{self._places.offset[row]} is not UTF-8 ({error.reason})",
            hint="convert the file to UTF-8",
        )


@contextmanager
def sample_reader(row_places: RowPositions) -> Iterator[SampleReader]:
    """Open the files for reading the rows at `row_places`. Raises InputDataError: a file cannot be
    read.
    """
    offset = row_places.offset.copy()
    with ExitStack() as opened:
        files = {}
        for number in np.unique(row_places.file).tolist():
            path = row_places.files[number]
            file = opened.enter_context(open_rows(path))
            if is_compressed(path):
                in_file = np.flatnonzero(row_places.file == number)
                aside = opened.enter_context(tempfile.TemporaryFile())
                try:
                    offset[in_file] = _set_aside(
                        file, cast(BinaryIO, aside), row_places.offset[in_file]
                    )
                except (OSError, EOFError, zlib.error) as error:
                    raise InputDataError(f"cannot read {path} a second time: {error}") from error
                file = cast(BinaryIO, aside)
            files[number] = file
        yield SampleReader(row_places, files, offset)


def _set_aside(packed: BinaryIO, aside: BinaryIO, offsets: IntArray) -> IntArray:
    """Copy the lines at `offsets` from `packed` to `aside`; return their offsets in `aside`."""
    now = np.empty(len(offsets), dtype=np.int64)
    at = 0
    for row in np.argsort(offsets).tolist():
        begins = int(offsets[row])
        while at < begins:
            at += len(packed.read(min(begins - at, BUFFER_BYTES)) or b"\n" * (begins - at))
        now[row] = aside.tell()
        line = packed.readline()
        at += len(line)
        aside.write(line)
    return now
