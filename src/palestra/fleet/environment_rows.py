"""The task rows of an environment in one file, read by this interpreter or by another one.

Another interpreter is needed when the file's requirements are not installed here.
"""

import asyncio
import contextlib
import faulthandler
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import orjson
from pydantic_core import to_jsonable_python

from palestra.errors import ConfigError, InputDataError, PalestraError, ServerDied
from palestra.fleet.importing import AuthorImport, import_too_long, start_limit_s
from palestra.fleet.loading import load_environment
from palestra.fleet.stacks import place_on
from palestra.fleet.venvs import interpreter_for, requirements_of, unsatisfied
from palestra.schema import JsonDict
from palestra.server import rows_in
from palestra.system import run_async, write_whole

BESIDE_IMPORT_S: Final = 180.0
"""The seconds that the other interpreter may take in addition to the import: for its start, and for
the rows."""
EXIT_S: Final = 5.0
"""The seconds that the other interpreter may take to exit. A thread of the imported file could
delay it."""
_PROGRAM: Final = "from palestra.fleet.environment_rows import write_rows; write_rows()"


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Which rows of which environment are wanted."""

    path: Path
    class_name: str = ""
    """The class in the file; empty: the only one."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values for the settings of the class."""
    data: tuple[Path, ...] | None = None
    """Files of rows that replace the environment's own data."""
    cache: Path = field(default_factory=Path)
    """The folder in which rows of the hub are kept."""

    def as_json(self) -> bytes:
        """Return the request for another interpreter."""
        fields = (self.path, self.class_name, dict(self.settings), self.data, self.cache)
        return orjson.dumps(fields, default=str)

    @classmethod
    def from_json(cls, text: bytes) -> "RowRequest":
        """Return the request that `as_json` wrote."""
        path, class_name, settings, data, cache = orjson.loads(text)
        own_data = None if data is None else tuple(map(Path, data))
        return cls(Path(path), class_name, settings, own_data, Path(cache))


@dataclass(frozen=True, slots=True)
class FileRows:
    """What a run needs to know of an environment in one file."""

    name: str
    rows: tuple[JsonDict, ...]
    settings: Mapping[str, Any]
    """All settings of the class, with their values."""
    description: str = ""
    """The first line of the class's docstring."""
    data_path: str = ""
    """The path or the name of its data, as it is written; empty for data of another kind."""
    data_place: str = ""
    """`FILE:LINE: `, where its `data` is set; without `data`, where the class begins."""
    has_gold: bool = False
    """Whether the class knows right answers."""
    warnings: tuple[str, ...] = ()
    """What the model may lack, one sentence each."""

    def as_json(self) -> JsonDict:
        """Return the fields as JSON values."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        plain: JsonDict = orjson.loads(orjson.dumps(fields, default=str))
        return plain


def file_rows(request: RowRequest, *, venvs: Path) -> FileRows:
    """Import the file in this process, or in a cached environment of `venvs` when its requirements
    are not installed here.

    Raises BadInput for an error in the file or its rows, and ServerDied when the environment cannot
    be built.
    """
    if not unsatisfied(requirements_of(request.path)):
        return _contents(request)
    return asyncio.run(_elsewhere(request, venvs))


async def _elsewhere(request: RowRequest, venvs: Path) -> FileRows:
    return await rows_by(await interpreter_for(request.path, cache=venvs), request)


def _contents(request: RowRequest) -> FileRows:
    env = load_environment(request.path, request.class_name, settings=request.settings)
    records = None if request.data is None else rows_in(*request.data)
    warnings = list(env.warnings())
    files = request.data or ()
    rows = tuple(env.rows(records, cache=request.cache, files=files, warn=warnings.append))
    data = env.cls.data
    return FileRows(
        name=env.name,
        rows=rows,
        settings=to_jsonable_python(dict(env.settings), fallback=str),
        description=(env.cls.__doc__ or "").strip().partition("\n")[0],
        data_path=str(data) if isinstance(data, str | Path) else "",
        data_place=env.location("data"),
        has_gold=bool(getattr(env.cls, "gold", "")),
        warnings=tuple(warnings),
    )


async def rows_by(
    python: Path, request: RowRequest, *, beside_s: float = BESIDE_IMPORT_S
) -> FileRows:
    """Return the same as `file_rows`, using the interpreter `python`. It may take `beside_s`
    seconds in addition to the import.
    """
    limit_s = start_limit_s()
    path = request.path
    with tempfile.TemporaryDirectory(prefix="palestra-rows-") as folder:
        answer, stack = Path(folder) / "rows.json", Path(folder) / "stack.txt"
        order = Path(folder) / "request.json"
        order.write_bytes(request.as_json())
        command = [str(python), "-P", "-c", _PROGRAM, *map(str, (order, answer, stack, limit_s))]
        end = f"did not end within {limit_s + beside_s:g} s"
        with contextlib.suppress(TimeoutError):  # there may be an answer nevertheless
            ended_process = await run_async(
                command, timeout_s=limit_s + beside_s, inherits_output=True
            )
            end = f"ended with exit code {ended_process.code}"
        if not answer.exists():
            if stack.exists() and (stacks := stack.read_text("utf-8", "replace")):
                raise import_too_long(AuthorImport.of(path), place_on(stacks))
            raise ServerDied(f"{path} could not be imported: {python} {end}")
        rows_found = orjson.loads(answer.read_bytes())
    if "error" in rows_found:
        kind = ConfigError if rows_found["kind"] == ConfigError.__name__ else InputDataError
        raise kind(rows_found["error"], hint=rows_found["hint"])
    return FileRows(
        **{
            **rows_found,
            "rows": tuple(rows_found["rows"]),
            "warnings": tuple(rows_found["warnings"]),
        }
    )


def write_rows() -> None:
    """Write the rows that the file in the first argument asks for, or the error, to the file in the
    second argument.

    The last argument is the limit in seconds. When the import takes longer, the stacks are written
    to the file in the third argument and this process ends, even if other code holds the
    interpreter's lock.
    """
    order, answer, stack = map(Path, sys.argv[1:4])
    rows_found: JsonDict
    try:
        request = RowRequest.from_json(order.read_bytes())
        with stack.open("w") as file, _ends_after(float(sys.argv[4]), file):
            load_environment(request.path, request.class_name, settings=request.settings)
        rows_found = _contents(request).as_json()
    except PalestraError as error:
        rows_found = {"kind": type(error).__name__, "error": error.message, "hint": error.hint}
    write_whole(answer, orjson.dumps(rows_found))
    faulthandler.dump_traceback_later(EXIT_S, exit=True, file=Path(os.devnull).open("w"))  # noqa: SIM115  # until the end


@contextlib.contextmanager
def _ends_after(limit_s: float, stacks: IO[str]) -> Iterator[None]:
    """End this process when the body takes longer than `limit_s`, and write the stacks of its
    threads to `stacks`.
    """
    faulthandler.dump_traceback_later(limit_s, exit=True, file=stacks)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
