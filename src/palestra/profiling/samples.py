"""Reads single materialized rows again, by their place in the file."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from palestra.errors import InputDataError
from palestra.profiling.columns import INDICES, TASK_INDEX
from palestra.profiling.frame import TaskIndex
from palestra.profiling.scan import BUFFER_BYTES, RawRow, decode_value, open_lines, split_row


class SampleReader:
    """The rows of one open file of materialized inputs."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    def read(self, offset: int, task: TaskIndex) -> dict[str, Any]:
        """The row at `offset`, without its indices; it must be one of `task`'s."""
        row = self.read_raw(offset, task)
        return {name: decode_value(raw) for name, raw in row.items() if name not in INDICES}

    def read_raw(self, offset: int, task: TaskIndex) -> RawRow:
        """As `read`, undecoded and with its indices."""
        self._file.seek(offset)
        row = split_row(self._file.readline())
        if row is None or TASK_INDEX not in row or decode_value(row[TASK_INDEX]) != task:
            raise InputDataError(
                f"{self._path} changed while it was being profiled: task {task} is no longer "
                f"at byte {offset}",
                hint="run the profile again when nothing writes to the file",
            )
        return row


@contextmanager
def sample_reader(path: Path) -> Iterator[SampleReader]:
    """Open the file for reading rows in any order; a compressed one is unpacked to disk first."""
    with open_lines(path) as file:
        if path.suffix != ".gz":
            yield SampleReader(path, file)
            return
        with tempfile.TemporaryFile() as unpacked:
            shutil.copyfileobj(file, unpacked, BUFFER_BYTES)
            yield SampleReader(path, cast(BinaryIO, unpacked))
