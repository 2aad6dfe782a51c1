"""Writes a file completely or not at all: to a temporary name, then synced and renamed."""

import errno
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from palestra import system
from palestra.errors import InputDataError
from palestra.schema import JsonObject


def encode(value: Any) -> bytes:
    """Encode a value as JSON without spaces, with keys in the given order."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        # integers beyond 64 bits and lone surrogates, both of which datasets contain
        if not isinstance(value, Mapping):
            return json.dumps(value, separators=(",", ":")).encode()
        # field by field: another may be JSON already, which only orjson takes
        items = (
            json.dumps(name).encode() + b":" + encode(member) for name, member in value.items()
        )
        return b"{" + b",".join(items) + b"}"


def write_jsonl(path: Path, rows: Iterable[JsonObject]) -> None:
    """Write `rows` to `path` as JSONL, one row per line."""
    with replacing(path) as file:
        for row in rows:
            file.write(encode(row) + b"\n")


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` as one JSON document, indented for people to read."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:  # as in `encode`
        text = json.dumps(value, indent=2).encode()
    with replacing(path) as file:
        file.write(text + b"\n")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` when the block ends. If the block fails, the new file is
    removed and `path` is unchanged.

    Raises InputDataError: the disk or the permissions do not allow writing.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        with system.replacing(path) as file:
            yield file
    except OSError as error:
        raise InputDataError(
            f"cannot write {path}: {error.strerror}",
            hint="free disk space or make the folder writable, or copy the run's files to "
            "another folder",
        ) from error
