"""The name and the task rows of a one-file environment, also where its packages are elsewhere."""

import asyncio
import faulthandler
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.errors import ConfigError, InputDataError, PalestraError, ServerDied
from palestra.serving.importing import AuthorImport, import_too_long, start_limit_s
from palestra.serving.loading import load_environment
from palestra.serving.stacks import place_on
from palestra.serving.venvs import interpreter_for, requirements_of, unsatisfied

_PROGRAM: Final = "from palestra.serving.file_rows import write_rows; write_rows()"


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


def _of(path: Path) -> FileRows:
    made = load_environment(path)
    return FileRows(made.name, iter(made.rows()), len(made.data))


async def _elsewhere(path: Path, cache: Path) -> FileRows:
    python = await interpreter_for(path, cache=cache)
    limit_s = start_limit_s()
    with tempfile.TemporaryDirectory(prefix="palestra-rows-") as folder:
        answer, stack = Path(folder) / "rows.json", Path(folder) / "stack.txt"
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-P", "-c", _PROGRAM, str(path), str(answer), str(stack), str(limit_s))
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if stack.exists() and (stacks := stack.read_text("utf-8", "replace")):
            raise import_too_long(AuthorImport(str(path), limit_s), place_on(stacks))
        if not answer.exists():
            raise ServerDied(f"{path} could not be imported: {python} ended with exit code {code}")
        found = orjson.loads(answer.read_bytes())
    if "error" in found:
        kind = ConfigError if found["kind"] == ConfigError.__name__ else InputDataError
        raise kind(found["error"], hint=found["hint"])
    return FileRows(found["name"], iter(found["rows"]), len(found["rows"]))


def write_rows() -> None:
    """Write what the file of the first argument holds to the second one, or what is wrong.

    After the seconds of the last argument the stack goes to the third one, and this process ends,
    whatever holds the interpreter's lock.
    """
    path, answer, stack = map(Path, sys.argv[1:4])
    faulthandler.dump_traceback_later(float(sys.argv[4]), exit=True, file=stack.open("w"))
    found: dict[str, Any]
    try:
        read = _of(path)
        found = {"name": read.name, "rows": list(read.rows)}
    except PalestraError as error:
        found = {"kind": type(error).__name__, "error": error.message, "hint": error.hint}
    answer.write_bytes(orjson.dumps(found))
