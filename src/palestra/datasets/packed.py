"""Open a file of rows, plain or compressed (gzip, zstd)."""

from pathlib import Path
from typing import BinaryIO

from palestra.errors import InputDataError
from palestra.schema import open_packed


def open_rows(path: Path) -> BinaryIO:
    """Open a file for reading bytes and decompress while reading. Raises InputDataError: the file
    cannot be opened.

    Reading raises OSError or EOFError: the compressed data is broken or incomplete.
    """
    try:
        return open_packed(path)
    except OSError as error:
        raise InputDataError(f"cannot read {path}: {error.strerror}") from error
