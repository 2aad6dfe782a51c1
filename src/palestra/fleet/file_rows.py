"""The name and the task rows of a one-file environment, also where its packages are elsewhere."""

import asyncio
import contextlib
import faulthandler
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import orjson

from palestra.errors import ConfigError, InputDataError, PalestraError, ServerDied
from palestra.fleet.importing import AuthorImport, import_too_long, start_limit_s
from palestra.fleet.loading import load_environment
from palestra.fleet.stacks import place_on
from palestra.fleet.venvs import interpreter_for, requirements_of, unsatisfied
from palestra.system import run_async, write_whole

BESIDE_IMPORT_S: Final = 180.0
"""For what the other interpreter does beside importing the file: its start, and the rows."""
EXIT_S: Final = 5.0
"""For its end, which a thread of the file's may hold up."""
_PROGRAM: Final = "from palestra.fleet.file_rows import write_rows; write_rows()"


@dataclass(frozen=True, slots=True)
class FileRows:
    """What an evaluation needs of the file: the environment's name, and its rows."""

    name: str
    rows: Iterator[dict[str, Any]]
    """Raises InputDataError for a row that the prompt or the function cannot be given."""
    count: int


def file_rows(path: Path, *, cache: Path) -> FileRows:
    """Import the file here, or in a cached environment where its requirements are lacking here.

    Raises BadInput for what is wrong with the file, ServerDied when the environment cannot be made.
    """
    if not unsatisfied(requirements_of(path)):
        return _of(path)
    return asyncio.run(_elsewhere(path, cache))


async def _elsewhere(path: Path, cache: Path) -> FileRows:
    return await rows_by(await interpreter_for(path, cache=cache), path)


def _of(path: Path) -> FileRows:
    made = load_environment(path)
    return FileRows(made.name, iter(made.rows()), len(made.data))


async def rows_by(python: Path, path: Path, *, beside_s: float = BESIDE_IMPORT_S) -> FileRows:
    """As `file_rows`, by another interpreter, which has `beside_s` beside the import."""
    limit_s = start_limit_s()
    with tempfile.TemporaryDirectory(prefix="palestra-rows-") as folder:
        answer, stack = Path(folder) / "rows.json", Path(folder) / "stack.txt"
        command = [str(python), "-P", "-c", _PROGRAM, *map(str, (path, answer, stack, limit_s))]
        end = f"did not end within {limit_s + beside_s:g} s"
        with contextlib.suppress(TimeoutError):  # there may be an answer nevertheless
            done = await run_async(command, timeout_s=limit_s + beside_s, inherits_output=True)
            end = f"ended with exit code {done.code}"
        if not answer.exists():
            if stack.exists() and (stacks := stack.read_text("utf-8", "replace")):
                raise import_too_long(AuthorImport.of(path), place_on(stacks))
            raise ServerDied(f"{path} could not be imported: {python} {end}")
        found = orjson.loads(answer.read_bytes())
    if "error" in found:
        kind = ConfigError if found["kind"] == ConfigError.__name__ else InputDataError
        raise kind(found["error"], hint=found["hint"])
    return FileRows(found["name"], iter(found["rows"]), len(found["rows"]))


def write_rows() -> None:
    """Write what the file of the first argument holds to the second one, or what is wrong.

    When the import takes longer than the seconds of the last argument, the stack goes to the third
    one, and this process ends, whatever holds the interpreter's lock.
    """
    path, answer, stack = map(Path, sys.argv[1:4])
    found: dict[str, Any]
    try:
        with stack.open("w") as file, _ends_after(float(sys.argv[4]), file):
            read = _of(path)
        found = {"name": read.name, "rows": list(read.rows)}
    except PalestraError as error:
        found = {"kind": type(error).__name__, "error": error.message, "hint": error.hint}
    write_whole(answer, orjson.dumps(found))
    faulthandler.dump_traceback_later(EXIT_S, exit=True, file=Path(os.devnull).open("w"))  # noqa: SIM115  # until the end


@contextlib.contextmanager
def _ends_after(limit_s: float, stacks: IO[str]) -> Iterator[None]:
    """End this process when the body takes longer, and write there where its threads stand."""
    faulthandler.dump_traceback_later(limit_s, exit=True, file=stacks)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
