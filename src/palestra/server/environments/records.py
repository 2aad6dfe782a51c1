"""Read the rows that an environment's `data` names: a list or a table, files, a split of the hub, a
function.
"""

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import has_magic
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.errors import InputDataError
from palestra.schema import ONE_ARRAY, JsonDict, JsonObject, encode_json, json_misfit
from palestra.server.author_code import layers_of, place_of
from palestra.server.method_forms import SELF_NAMES, SPREAD
from palestra.server.own_errors import raising_place
from palestra.settings import existing_paths
from palestra.system import shown

HUB: Final = "hf:"
_TABLES: Final = frozenset({".csv", ".tsv"})
_LONGEST_NAME: Final = 60
"""The length up to which a text may be the name of a column."""
_QUOTED: Final = 20
"""The length up to which the text of a cell is quoted."""
HUB_DEADLINE_S: Final = 20.0
"""How long the hub may fail without progress: a person waits for the run to begin."""
logger: Final = logging.getLogger("palestra.server")
_KINDS: Final = "a list of rows, a table of pandas, a path or a glob, hf:org/name[@revision][:config][/split], or a function that yields rows"


def rows_of(
    data: Any, *, folder: Path, owner: str, cache: Path, location: str = ""
) -> list[JsonObject]:
    """Return the rows of `data`. `folder`: where relative paths begin; `cache`: where rows of the
    hub are kept; `location`: where the author's code sets `data`, for messages.

    `data` may be a function without parameters. Raises InputDataError: the rows cannot be read.
    """
    if isinstance(data, str | Path):
        _refuse_missing(str(data), folder, owner, location)
        file_rows = list(_named_rows(str(data), folder, cache))
        if not file_rows and not str(data).startswith(HUB):
            files = ", ".join(shown(path) for path in existing_paths(str(data), folder))
            raise InputDataError(
                f"{location}the data of {owner}, {files}, has no rows",
                hint="write one row a line; the first line of a CSV or TSV names the columns only",
            )
        return file_rows
    if callable(data):
        location = place_of(data) or location
    rows = _called(data, owner) if callable(data) else data
    if (records := table_rows(rows)) is not None:
        rows = records
    if callable(data) and (rows is None or (isinstance(rows, list) and not rows)):
        raise InputDataError(
            f"{location}{_name_of(data)} returned {'None' if rows is None else 'no row'}, and it is the "
            f"data of {owner}",
            hint="end it with return and a list of rows, or yield each row",
        )
    if isinstance(rows, Mapping | str) or not isinstance(rows, Iterable):
        raise InputDataError(
            f"{location}data of {owner} is of type {type(rows).__name__}", hint=f"data is {_KINDS}"
        )
    return list(_mappings(rows, owner, location))


def refuse_unfilled(function: Callable[..., Any], owner: str) -> None:
    """Raise InputDataError when the function or bound method that is the `data` of an environment has
    a parameter that nothing fills.
    """
    parameters = list(inspect.signature(function).parameters.values())
    unfilled = [p.name for p in parameters if p.default is p.empty and p.kind not in SPREAD]
    if inspect.ismethod(function):
        first = next(iter(inspect.signature(function.__func__).parameters.values()))
        # A function outside of the class became a method by `data = rows`.
        owners = function.__qualname__.split(".")[-2:-1]
        is_method = any(owners == [cls.__name__] for cls in type(function.__self__).__mro__)
        if first.name not in SELF_NAMES and first.kind not in SPREAD and not is_method:
            unfilled = [first.name, *unfilled]
    if unfilled:
        name = _name_of(function)
        raise InputDataError(
            f"{place_of(function)}{name} is the data of {owner}, and nothing fills its parameter "
            f"{unfilled[0]}",
            hint=f"write data = {name}({unfilled[0]}=…), or def {name}(self): with a setting "
            f"{unfilled[0]} of the class, it reads self.{unfilled[0]}",
        )


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(layers_of(function)[-1], "__name__", "data")


def table_rows(value: Any) -> list[Any] | None:
    """Return the rows of a table of pandas, Polars or PyArrow as mappings; None for another value.

    Its items would be the columns. Of pandas, a missing value (NaN, NaT, NA) is None, and an array in a
    cell, which a column of lists in Parquet becomes, is a list.
    """
    if not hasattr(value, "columns"):
        return None
    if callable(is_there := getattr(value, "notna", None)):
        rows = value.astype(object).where(is_there(), None).to_dict("records")
        return [_without_arrays(row) for row in rows]
    for name, arguments in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):
        if callable(method := getattr(value, name, None)):
            return list(method(*arguments))
    return None


def _without_arrays(value: Any) -> Any:
    if callable(tolist := getattr(value, "tolist", None)):
        value = tolist()
    if isinstance(value, list):
        return [_without_arrays(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_arrays(item) for name, item in value.items()}
    return value


def plain_row(row: JsonObject, label: Callable[[], str]) -> JsonDict:
    """Return a row as it is after it was written as JSON and read again. `label`: where it is, for
    messages.

    Raises InputDataError: a value would be another one then, so that the verifier would not see what
    the author wrote.
    """
    reason = ""
    try:
        plain: JsonDict | None = orjson.loads(encode_json(row))
    except (TypeError, ValueError) as error:
        plain, reason = None, str(error)
    if plain is not None and plain == row:
        return plain
    misfit = json_misfit(row, exact=True)
    raise InputDataError(
        f"{label()} cannot be JSON: {misfit.problem if misfit else reason}",
        hint=misfit.cure if misfit else "",
    )


def _refuse_missing(text: str, folder: Path, owner: str, location: str) -> None:
    """Raise InputDataError when a file of `data` does not exist. Globs have their own message."""
    if text.startswith(HUB) or has_magic(text):
        return
    [path] = existing_paths(text, folder)
    if not path.exists():
        raise InputDataError(
            f"{location}the data of {owner} does not exist: {path.absolute()}",
            hint="a relative path of data begins at the folder of the environment's file",
        )


def _called(function: Callable[[], Any], owner: str) -> Any:
    try:
        rows = function()
        return list(rows) if isinstance(rows, Iterator) else rows
    except InputDataError:
        raise
    except Exception as error:
        raise InputDataError(
            f"{raising_place(error)}data of {owner} raised {type(error).__name__}: {error}"
        ) from error


def _mappings(rows: Iterable[Any], owner: str, location: str) -> Iterator[JsonObject]:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            raise InputDataError(
                f"{location}row {number} of the data of {owner} is not a mapping of fields: {row!r:.80}",
                hint='a row is a mapping such as {"question": "2 + 2 = ?", "expected": "4"}',
            )
        yield row


def _named_rows(text: str, folder: Path, cache: Path) -> Iterator[JsonObject]:
    if text.startswith(HUB):
        from palestra.datasets import HubReference, Sources, TransferPatience

        patience = TransferPatience(
            HUB_DEADLINE_S, answer_timeout_s=HUB_DEADLINE_S, tell=logger.warning
        )
        sources = Sources({}, os.environ, patience=patience)
        yield from rows_in(sources.split(HubReference.parse(text), cache))
    else:
        yield from rows_in(*existing_paths(text, folder))


@dataclass(frozen=True)
class RowPlaces:
    """Where rows are, for messages. `files`: empty for rows that are in no file."""

    files: tuple[Path, ...] = ()

    @classmethod
    def of_data(cls, data: Any, folder: Path) -> "RowPlaces":
        """Return the places of the rows of `data`. `folder`: where relative paths begin."""
        in_file = isinstance(data, str | Path) and not str(data).startswith(HUB)
        return cls(existing_paths(str(data), folder) if in_file else ())

    def of(self, number: int) -> str:
        """Return the place of a row, counted from 0. Files are read once more to know its line."""
        if not self.files:
            return f"row {number} of data"
        file, line = self._lines[number]
        return f"line {line} of {shown(file)}"

    def counted(self, numbers: Sequence[int], total: int) -> str:
        """Return such as `2 of the 5 rows (row 0 of data is the first)`."""
        return f"{len(numbers)} of the {total} rows ({self.of(numbers[0])} is the first)"

    def missing_header(self, rows: Sequence[JsonObject]) -> str:
        """Return the advice for rows of a table whose first line is data, and names no columns; empty
        for other rows.
        """
        tables = [file for file in self.files if _TABLES.intersection(file.suffixes)]
        columns = list(rows[0]) if rows else []
        if not tables or not any(map(_is_data, columns)):
            return ""
        quoted = ", ".join(
            name if len(name) <= _QUOTED else f"{name[:_QUOTED]}…" for name in columns
        )
        return (
            f"the first line of {shown(tables[0])} names the columns, and it looks like data "
            f"({quoted}): write a line of names above it"
        )

    @cached_property
    def _lines(self) -> list[tuple[Path, int]]:
        from palestra.datasets import records_of

        return [(file, record.number) for file in self.files for record in records_of(file)]


def _is_data(name: str) -> bool:
    """Whether the name of a column looks like data: a number, or a long text."""
    try:
        float(name)
    except ValueError:
        return len(name) > _LONGEST_NAME
    return True


def rows_in(*paths: Path) -> Iterator[JsonObject]:
    """Yield the rows of files. Raises InputDataError that lists all lines without a row."""
    # With numpy, which servers that read no rows do without.
    from palestra.datasets import RowProblems, records_of

    problems = RowProblems()
    is_array = False
    for path in paths:
        for record in records_of(path):
            if record.error or not isinstance(record.row, Mapping):
                is_array = is_array or record.error.startswith(ONE_ARRAY)
                problems.add(path, record.number, record.error or "is not an object")
            else:
                yield record.row
    problems.raise_if_any(hint="or give the file a name that ends in .json" if is_array else "")
