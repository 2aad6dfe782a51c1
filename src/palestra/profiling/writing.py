"""Writes a file whole or not at all: under a temporary name, synced, then renamed."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson


def encode(value: Any) -> bytes:
    """JSON without spaces, keys in the order given."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        # integers beyond 64 bits and lone surrogates, both of which datasets contain
        if not isinstance(value, Mapping):
            return json.dumps(value, separators=(",", ":")).encode()
        # field by field: another may be JSON already, which only orjson takes
        items = (json.dumps(name).encode() + b":" + encode(held) for name, held in value.items())
        return b"{" + b",".join(items) + b"}"


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One row per line."""
    with replacing(path) as file:
        for row in rows:
            file.write(encode(row) + b"\n")


def write_json(path: Path, value: Any) -> None:
    """One document, indented for people to read."""
    with replacing(path) as file:
        file.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes `path`'s place when the block ends, and leaves no trace if it fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
