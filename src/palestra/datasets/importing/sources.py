"""Read the records of a file one by one, in any supported format."""

import codecs
import csv
import gzip
import shlex
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import orjson

from palestra.datasets.packed import open_rows
from palestra.datasets.problems import RowProblems, missing_file
from palestra.errors import InputDataError, require_extra
from palestra.schema import (
    COMPRESSED_SUFFIXES,
    MAX_ROW_BYTES,
    Line,
    byte_that_is_not_utf8,
    is_compressed,
    jsonl_lines,
    other_than_text,
    read_jsonl,
    repeated_key,
)
from palestra.system import shown

if TYPE_CHECKING:
    import _csv

    import pyarrow as pa

_SPLITS: Final = frozenset({"train", "validation", "valid", "val", "dev", "test", "eval"})
ROWS_AT_ONCE: Final = 1000
"""The number of rows in one batch read from a Parquet file."""
_KEYS: Final = orjson.OPT_NON_STR_KEYS
"""A map's keys may be numbers or dates, which are texts in JSON."""

Records = Iterator[Line]
"""Lines with a number from 1, and either an object or an error. In a table, the number is the line
where the record starts."""


def records_of(path: Path) -> Records:
    """Yield the records of `path`. The file's suffix decides the format. Its first bytes decide
    whether it is compressed; `.gz` or `.zst` after the suffix is not needed.

    Raises InputDataError: the format is unknown, or the file cannot be read in it.
    """
    named_packed = path.suffix.lower() in COMPRESSED_SUFFIXES
    suffix = Path(path.stem).suffix if named_packed else path.suffix
    reader = _READERS.get(suffix.lower())
    if path.is_dir():
        raise InputDataError(f"{shown(path)} is a folder, not a file of rows")
    if not path.is_file():
        raise missing_file(path)
    if reader is None:
        raise InputDataError(
            f"{path}: {suffix or 'a file without an ending'} is not a format that can be imported",
            hint=f"known: {', '.join(sorted(_READERS))}, each also with .gz or .zst",
        )
    try:
        if named_packed or is_compressed(path):
            yield from _unpacked(path, suffix, reader)
        else:
            yield from reader(path)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputDataError(
            f"{path} cannot be read: the compressed data is incomplete or damaged ({error})",
            hint="copy or download the file again",
        ) from error
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error}") from error


def _not_utf8(path: Path, error: UnicodeDecodeError) -> InputDataError:
    with path.open("rb") as file:
        kind = other_than_text(file.read(8))
    if kind and kind != "UTF-16":
        return InputDataError(f"{path} is {kind}, not text", hint="unpack it first")
    reason = f": the file is {kind}" if kind else _line_not_utf8(path) or f": {error}"
    copy = path.with_name(f"utf8_{path.name}")
    if is_compressed(path):
        return InputDataError(
            f"{path} cannot be read{reason}",
            hint=f"unpack it, and save it as UTF-8 with `iconv -f {kind or 'latin1'} -t utf-8`",
        )
    return InputDataError(
        f"{path} cannot be read{reason}",
        hint=f"save it as UTF-8: `iconv -f {kind or 'latin1'} -t utf-8 {shlex.quote(shown(path))} > "
        f"{shlex.quote(shown(copy))}`",
    )


def _line_not_utf8(path: Path) -> str:
    """Return where the first byte is that is not UTF-8, to add to a message; empty when none is."""
    with open_rows(path) as file:
        for number, line in enumerate(file, start=1):
            if where := byte_that_is_not_utf8(line):
                return f", line {number}: {where}"
    return ""


def _unpacked(path: Path, suffix: str, reader: Callable[[Path], Records]) -> Records:
    with tempfile.TemporaryDirectory(prefix="palestra-import-") as folder:
        plain = Path(folder) / f"rows{suffix}"
        with open_rows(path) as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file)
        try:
            yield from reader(plain)
        except InputDataError as error:
            message = error.message.replace(str(plain), str(path))
            raise InputDataError(message, hint=error.hint, cause=error.cause) from None


def write_lines(path: Path, output: IO[bytes]) -> None:
    """Append the records of a file to `output` as JSON lines, unchanged.

    Reads the whole file, then raises InputDataError that lists all lines without a valid record.
    """
    problems = RowProblems()
    for record in records_of(path):
        if record.error:
            problems.add(path, record.number, record.error)
        else:
            output.write(orjson.dumps(record.row) + b"\n")
    problems.raise_if_any()


def _lines(path: Path) -> Records:
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        yield from jsonl_lines(file, path=path)


def _json(path: Path) -> Records:
    """Yield records from a list of objects, from the only list inside an object, or from one
    object.
    """
    text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        records: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if text.lstrip().startswith(b"["):
            text.decode()  # what is not UTF-8 is said as of every file
            raise InputDataError(
                f"{path} is not JSON, line {error.lineno}, column {error.colno}: {error.msg}"
            ) from None
        yield from _lines(path)  # many a .json holds a row a line
        return
    if key := repeated_key(text, records):
        raise InputDataError(
            f"{path}: the key {key} is there twice", hint="a JSON object has each key once"
        )
    if isinstance(records, Mapping):
        lists = [value for value in records.values() if isinstance(value, list)]
        if len(lists) > 1 and _are_splits(records):
            names = ", ".join(records)
            raise InputDataError(
                f"{path} is an object with several lists of rows: {names}",
                hint="write the list of the wanted rows into a file of its own",
            )
        records = lists[0] if len(lists) == 1 else [records]
    if not isinstance(records, list):
        raise InputDataError(f"{path} is neither a list of objects nor an object")
    for number, record in enumerate(records, start=1):
        yield Line(number, record)


def _are_splits(record: Mapping[Any, Any]) -> bool:
    """Whether an object holds the splits of a dataset. Another object with lists is one row."""
    return record.keys() <= _SPLITS and all(isinstance(rows, list) for rows in record.values())


def _table(path: Path) -> Records:
    """Yield the records of a CSV or TSV file. All fields are strings; quoted fields may contain
    line breaks.
    """
    before = csv.field_size_limit(MAX_ROW_BYTES)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(path)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                yield from _records(path, reader, delimiter)
            except csv.Error as error:
                raise InputDataError(f"{path} line {reader.line_num}: {error}") from error
    finally:
        csv.field_size_limit(before)


_DELIMITERS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def _records(path: Path, reader: "_csv.Reader", delimiter: str) -> Records:
    head = next(reader, [])
    if not any(head):
        raise InputDataError(f"{path} has no header: its first line must name the columns")
    if len(set(head)) < len(head):
        raise InputDataError(f"{path}: a column is named twice: {', '.join(head)}")
    before = reader.line_num
    for cells in reader:
        number, before = before + 1, reader.line_num
        if not cells:
            continue
        if len(cells) == len(head):
            yield Line(number, dict(zip(head, cells, strict=True)))
        else:
            problem = f"{len(cells)} cells under {len(head)} columns"
            if len(cells) > len(head):
                problem += f'; put a cell that has {_DELIMITERS[delimiter]} in it into quotes ("…")'
            yield Line(number, None, problem)


def _delimiter(path: Path) -> str:
    """Return what separates the columns of the header. The suffix decides where it can: spreadsheets
    write semicolons or tabs into a .csv, too.
    """
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig") as file:
        head = file.readline()
    return next((delimiter for delimiter in (usual, ";", "\t", ",") if delimiter in head), usual)


def _parquet(path: Path) -> Records:
    with tempfile.TemporaryDirectory(prefix="palestra-import-") as folder:
        lines = Path(folder) / "rows.jsonl"
        with lines.open("wb") as file:
            _write_rows(path, file)
        yield from read_jsonl(lines)


def _write_rows(parquet: Path, output: IO[bytes]) -> None:
    """Append the rows of a Parquet file as JSON lines, one batch at a time.

    Raises InputDataError: the file is not Parquet, or a value cannot be written as JSON.
    """
    require_extra("pyarrow", extra="parquet", what="reading Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    try:
        with pq.ParquetFile(parquet) as file:
            _refuse_bytes(parquet, file.schema_arrow)
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                for row in batch.to_pylist(maps_as_pydicts="strict"):
                    output.write(orjson.dumps(row, default=_plain, option=_KEYS) + b"\n")
                    count += 1
    except pa.ArrowInvalid as error:
        raise InputDataError(
            f"{shown(parquet)} is not a whole Parquet file: {error}",
            hint="write it, or get it, again",
        ) from None
    except (orjson.JSONEncodeError, KeyError, ValueError, OverflowError) as error:
        reason = error.args[0]  # a KeyError's text is in quotes
        raise InputDataError(f"row {count + 1} of {shown(parquet)}: {reason}") from None


def _refuse_bytes(parquet: Path, schema: "pa.Schema") -> None:
    """Raise InputDataError: a column has bytes, which JSON has not."""
    for column in schema:
        if _has_bytes(column.type):
            raise InputDataError(
                f"{shown(parquet)}: the column {column.name} holds bytes ({column.type}), and rows are "
                "JSON",
                hint="leave the column out, or make texts of it",
            )


def _has_bytes(kind: "pa.DataType") -> bool:
    """Whether a value of this type has bytes anywhere."""
    from pyarrow import types

    tests = (
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_binary_view,
    )
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(test(kind) for test in tests) or any(
        _has_bytes(kind.field(index).type) for index in range(kind.num_fields)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):  # of nanoseconds, in a class of pandas
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_READERS: Final[Mapping[str, Callable[[Path], Records]]] = {
    ".csv": _table,
    ".tsv": _table,
    ".json": _json,
    ".jsonl": _lines,
    ".ndjson": _lines,
    ".parquet": _parquet,
}
