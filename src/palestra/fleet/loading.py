"""Load the server class from an implementation's folder and entrypoint."""

import asyncio
import contextlib
import faulthandler
import importlib
import importlib.util
import inspect
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final

import orjson

from palestra.config import PACKAGE_ROOT, ServerType
from palestra.errors import ConfigError, InputDataError, PalestraError, ServerDied
from palestra.fleet.importing import IMPORTS, AuthorImport, import_too_long, start_limit_s
from palestra.fleet.stacks import place_on
from palestra.fleet.unimportable import unimportable
from palestra.fleet.venvs import interpreter_for, requirements_of, unsatisfied
from palestra.schema import JsonDict
from palestra.server import Environment, Server, server_class_of
from palestra.system import on_failure, run_async, write_whole

ALIASES: Final = "palestra.compat.aliases"
"""The module that makes the names of other frameworks importable. It is imported by name, because
it belongs to a layer above this package."""

FOREIGN: Final = "__palestra_server__"
"""The attribute of another framework's class that returns a Palestra server class wrapping it."""

_TREES: Final = frozenset(server_type.value for server_type in ServerType)
_SERVED = re.compile(r"^\s+(?:app = )?(\w+)\.run_webserver\(", re.MULTILINE)


def load_module(path: Path) -> ModuleType:
    """Import the file at `path`. A file of Palestra is imported by its package name.

    Raises ConfigError, with the author's error and line, when the import raises. An import that
    does not end is ended from outside; see `AuthorImports`.
    """
    path = path.resolve()
    try:
        if path.is_relative_to(PACKAGE_ROOT):
            relative = path.relative_to(PACKAGE_ROOT).with_suffix("")
            return importlib.import_module(".".join(("palestra", *relative.parts)))
        with IMPORTS.importing(path):
            return _load_foreign(path)
    except ConfigError:
        raise
    except ImportError as error:
        raise unimportable(path, error, _line_in(path, error)) from error
    except Exception as error:
        line = _line_in(path, error)
        raise ConfigError(
            f"{path}{line} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def load_server_class(path: Path) -> type[Server]:
    """Return the server class (or `@environment`) that the entrypoint `path` defines.

    Raises ConfigError when the file defines none, or several that are not subclasses of each other.
    """
    module = load_module(path)
    environments = [value for value in vars(module).values() if isinstance(value, Environment)]
    if len(environments) == 1:
        return server_class_of(environments[0], path.resolve())
    own_classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and (issubclass(value, Server) or hasattr(value, FOREIGN))
        and value.__module__ == module.__name__
        and not inspect.isabstract(value)
    ]
    last = [
        cls
        for cls in own_classes
        if not any(cls in other_class.__mro__[1:] for other_class in own_classes)
    ]
    last = _said_to_be_served(module, path) or last
    if len(last) == 1:
        return _as_ours(last[0])
    names = [env.name for env in environments] + [cls.__name__ for cls in last]
    found_names = ", ".join(names) or "none"
    raise ConfigError(
        f"{path} must define exactly one server class or @environment; found: {found_names}",
        hint="subclass ResourcesServer, Agent or ModelServer, or use @palestra.environment",
    )


def _said_to_be_served(module: ModuleType, path: Path) -> list[Any]:
    """Return the class whose `run_webserver` the file calls. The class may be defined in another
    file.
    """
    names = dict.fromkeys(_SERVED.findall(path.read_text()))
    served = [getattr(module, name, None) for name in names]
    return [cls for cls in served if hasattr(cls, FOREIGN)]


def _as_ours(cls: Any) -> type[Server]:
    server_class: type[Server] = cls if issubclass(cls, Server) else getattr(cls, FOREIGN)()
    return server_class


def load_environment(path: Path) -> Environment:
    """Return the only `@environment` of a file. Raises ConfigError when the file has none or
    several.
    """
    module = load_module(path)
    environments = [value for value in vars(module).values() if isinstance(value, Environment)]
    if len(environments) != 1:
        names = ", ".join(env.name for env in environments) or "none"
        raise ConfigError(
            f"{path} must define exactly one @environment; found: {names}",
            hint="decorate one function with @palestra.environment",
        )
    return environments[0]


def _load_foreign(path: Path) -> ModuleType:
    """Import a user's file. Its project root is importable, as in the user's own tests."""
    root = path.parents[2] if len(path.parents) > 2 else path.parent
    for entry in (str(path.parent), str(root)):
        if entry not in sys.path:
            sys.path.append(entry)
    importlib.import_module(ALIASES).install()
    if (foreign := _by_package_name(path, root)) is not None:
        return foreign
    # The sum tells apart files that have the same place in different projects.
    label = "_".join(path.with_suffix("").parts[-3:]).replace("-", "_")
    name = f"palestra_user_{label}_{zlib.crc32(bytes(path)):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with on_failure(lambda: sys.modules.pop(name)):
        spec.loader.exec_module(module)
    return module


def _by_package_name(path: Path, root: Path) -> ModuleType | None:
    """Import the file under the package name that its neighbours and tests use, if this name leads
    to the same file; else return None.

    Under another name, a module that other files import too would exist twice.
    """
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    if path.parent.parent.name not in _TREES or not name.replace(".", "_").isidentifier():
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != path:
        return None
    return importlib.import_module(name)


def _line_in(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    frame = error.__traceback__
    line = ""
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path):
            line = f":{frame.tb_lineno}"
        frame = frame.tb_next
    return line


BESIDE_IMPORT_S: Final = 180.0
"""The seconds that the other interpreter may take in addition to the import: for its start, and for
the rows."""
EXIT_S: Final = 5.0
"""The seconds that the other interpreter may take to exit. A thread of the imported file could
delay it."""
_PROGRAM: Final = "from palestra.fleet.loading import write_rows; write_rows()"


@dataclass(frozen=True, slots=True)
class FileRows:
    """What an evaluation needs from a file: the environment's name, its rows and their number."""

    name: str
    rows: Iterator[JsonDict]
    """The rows. Iterating raises InputDataError for a row that does not fit the prompt or the
    function."""
    count: int


def file_rows(path: Path, *, cache: Path) -> FileRows:
    """Import the file in this process, or in a cached environment when its requirements are not
    installed here.

    Raises BadInput for an error in the file, and ServerDied when the environment cannot be built.
    """
    if not unsatisfied(requirements_of(path)):
        return _of(path)
    return asyncio.run(_elsewhere(path, cache))


async def _elsewhere(path: Path, cache: Path) -> FileRows:
    return await rows_by(await interpreter_for(path, cache=cache), path)


def _of(path: Path) -> FileRows:
    env = load_environment(path)
    return FileRows(env.name, iter(env.rows()), len(env.data))


async def rows_by(python: Path, path: Path, *, beside_s: float = BESIDE_IMPORT_S) -> FileRows:
    """Return the same as `file_rows`, using the interpreter `python`. It may take `beside_s`
    seconds in addition to the import.
    """
    limit_s = start_limit_s()
    with tempfile.TemporaryDirectory(prefix="palestra-rows-") as folder:
        answer, stack = Path(folder) / "rows.json", Path(folder) / "stack.txt"
        command = [str(python), "-P", "-c", _PROGRAM, *map(str, (path, answer, stack, limit_s))]
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
    return FileRows(rows_found["name"], iter(rows_found["rows"]), len(rows_found["rows"]))


def write_rows() -> None:
    """Write the rows of the file in the first argument, or the error, to the file in the second
    argument.

    The last argument is the limit for the import in seconds. When the import takes longer, the
    stacks are written to the file in the third argument and this process ends, even if other code
    holds the interpreter's lock.
    """
    path, answer, stack = map(Path, sys.argv[1:4])
    rows_found: JsonDict
    try:
        with stack.open("w") as file, _ends_after(float(sys.argv[4]), file):
            file_rows = _of(path)
        rows_found = {"name": file_rows.name, "rows": list(file_rows.rows)}
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
