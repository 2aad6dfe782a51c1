"""The commit of an index: how much of its columns counts, and of which files they were made."""

import sys
from typing import Final

import msgspec

from palestra.viewer.index.row_fields import FieldStates
from palestra.viewer.index.sources import IndexedFile
from palestra.viewer.index.storage import ColumnState

FORMAT: Final = f"7 {sys.byteorder}"
"""The format of the columns and what the reader takes out of rows. Another one is built anew."""
MOST_PROBLEMS: Final = 1_000


class BadLine(msgspec.Struct, order=True):
    """A line that is not a row."""

    file: int
    line: int
    reason: str


class Commit(msgspec.Struct):
    """The state of an index. `version` grows with each commit, also across generations."""

    generation: str
    version: int = 0
    format: str = FORMAT
    outputs: list[str] = []
    columns: dict[str, ColumnState] = {}
    fields: FieldStates = msgspec.field(default_factory=FieldStates)
    sources: list[IndexedFile] = []
    problems: list[BadLine] = []
    problem_count: int = 0

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        state = self.columns.get(f"{table}.task")
        return state.size // 8 if state is not None else 0

    def encoded(self) -> bytes:
        """Return the commit as JSON."""
        return msgspec.json.encode(self)


def read(data: bytes | None) -> Commit | None:
    """Return a commit; None when it is missing, damaged, or of another format."""
    if data is None:
        return None
    try:
        commit = msgspec.json.decode(data, type=Commit)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return commit if commit.format == FORMAT else None
