"""The name and the task rows of a one-file environment, also where its packages are elsewhere."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.errors import ConfigError, InputDataError, PalestraError, ServerDied
from palestra.serving.loading import load_environment
from palestra.serving.venvs import interpreter_for, requirements_of, unsatisfied

TIMEOUT_S = 300.0
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
    with tempfile.TemporaryDirectory(prefix="palestra-rows-") as folder:
        answer = Path(folder) / "rows.json"
        process = await asyncio.create_subprocess_exec(
            str(python), "-P", "-c", _PROGRAM, str(path), str(answer)
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                code = await process.wait()
        except TimeoutError:
            raise ServerDied(f"{path} was not imported within {TIMEOUT_S:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if not answer.exists():
            raise ServerDied(f"{path} could not be imported: {python} ended with exit code {code}")
        found = orjson.loads(answer.read_bytes())
    if "error" in found:
        kind = ConfigError if found["kind"] == ConfigError.__name__ else InputDataError
        raise kind(found["error"], hint=found["hint"])
    return FileRows(found["name"], iter(found["rows"]), len(found["rows"]))


def write_rows() -> None:
    """Write what the file of the first argument holds to the second one, or what is wrong."""
    path, answer = map(Path, sys.argv[1:])
    found: dict[str, Any]
    try:
        read = _of(path)
        found = {"name": read.name, "rows": list(read.rows)}
    except PalestraError as error:
        found = {"kind": type(error).__name__, "error": error.message, "hint": error.hint}
    answer.write_bytes(orjson.dumps(found))
