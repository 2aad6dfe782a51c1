"""Reads JSONL a line at a time, splitting each row into its top-level values and no further.

A value stays the bytes it was (`msgspec.Raw`) until somebody asks for it, so a 50 KB response
costs one pass over its characters and no Python objects.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from palestra.errors import InputDataError

BUFFER_BYTES = 1 << 20

RawRow = dict[str, msgspec.Raw]
"""A row's top-level fields, undecoded."""

_split = msgspec.json.Decoder(RawRow).decode


class Line(NamedTuple):
    """One line of a file. `offset` counts bytes of the uncompressed file."""

    number: int
    offset: int
    text: bytes

    @property
    def ended(self) -> bool:
        return self.text.endswith(b"\n")


def open_lines(path: Path) -> BinaryIO:
    """Open plain or gzip-compressed JSONL for reading bytes."""
    if path.suffix == ".zst":
        raise InputDataError(
            f"{path} is compressed with zstd, which cannot be read here",
            hint=f"install the zstd tool and decompress it: zstd -d {path}",
        )
    try:
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        return path.open("rb", buffering=BUFFER_BYTES)
    except OSError as error:
        raise InputDataError(f"cannot read {path}: {error.strerror}") from error


def scan_rows(
    path: Path, *, notices: list[str] | None = None, may_be_empty: bool = False
) -> Iterator[tuple[Line, RawRow]]:
    """Every row of a file. A torn last line is an error, or, given `notices`, left out with one."""
    empty = True
    for line in _scan_lines(path):
        row = split_row(line.text)
        if row is not None:
            empty = False
            yield line, row
        elif line.ended:
            raise _malformed(path, line)
        elif notices is None:
            raise _torn(path, line)
        else:
            notices.append(f"{path}: line {line.number} is torn (no end of line) and was left out")
    if empty and not may_be_empty:
        raise InputDataError(f"{path} holds no rows")


def split_row(text: bytes) -> RawRow | None:
    """The top-level fields of a JSON object, or None when the text is something else."""
    try:
        return _split(text)
    except msgspec.MsgspecError:
        return _split_leniently(text)


def decode_value(raw: msgspec.Raw) -> Any:
    """One value as Python objects; integers keep all their digits."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        return json.loads(bytes(raw))


def _scan_lines(path: Path) -> Iterator[Line]:
    offset = 0
    with open_lines(path) as file:
        try:
            for number, text in enumerate(file, start=1):
                if not text.isspace():
                    yield Line(number, offset, text)
                offset += len(text)
        except (OSError, EOFError, zlib.error) as error:
            raise InputDataError(f"cannot read {path}: {error}") from error


def _split_leniently(text: bytes) -> RawRow | None:
    """Accept what Python's own json writes and strict readers refuse: NaN, lone surrogates."""
    try:
        row = json.loads(text)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    return {name: msgspec.Raw(json.dumps(value).encode()) for name, value in row.items()}


def _malformed(path: Path, line: Line) -> InputDataError:
    try:
        json.loads(line.text)
    except ValueError as error:
        return InputDataError(
            f"{path} is not JSONL: line {line.number} is not JSON ({error})",
            hint="each line holds one whole JSON object",
        )
    return InputDataError(
        f"{path} is not JSONL of rows: line {line.number} is JSON, but not an object"
    )


def _torn(path: Path, line: Line) -> InputDataError:
    return InputDataError(
        f"{path}: the last line ({line.number}) is torn: it has no end of line and is not a row",
        hint="the run was stopped while writing it: resume the run to collect that rollout "
        "again, or leave it out with ++allow_partial_rollouts=True",
    )
