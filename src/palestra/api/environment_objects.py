"""Turns a class or a function into the file that defines it, because servers import files."""

import contextlib
import hashlib
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import palestra
from palestra.api.notebook_cells import importable_text
from palestra.errors import ConfigError
from palestra.fleet import IMPORTS, cache_root
from palestra.server import Environment, class_of

_NOTEBOOKS: Final = "notebooks"


def file_of(environment: Any, running: Sequence[Callable[..., Any]] = ()) -> str:
    """Return `FILE.py:NAME` for a subclass of `Environment`, or a function with `@environment`.

    One that is defined in a notebook's cell gets a file with the text of this cell, without the
    statements that call one of the functions `running`, and with what other cells have imported of
    Palestra. Raises ConfigError: the object is no environment, or its source is not there.
    """
    if isinstance(environment, Environment):
        name = type(environment).__name__
        raise ConfigError(
            f"an object of {name} is no environment: each rollout has one of its own",
            hint=f"pass the class, {name}, and values for its settings as settings={{…}}",
        )
    if class_of(environment) is None:
        raise ConfigError(
            f"{environment!r} is no environment",
            hint="pass a path, a name, a subclass of palestra.Environment, or a function with "
            "@environment",
        )
    path = _source_file(environment, running)
    return f"{path}:{environment.__name__}"


def target_of(environment: Any, running: Sequence[Callable[..., Any]] = ()) -> str:
    """Return how commands name an environment: a path, a name, or an object as of `file_of`."""
    if isinstance(environment, Path):
        return str(environment.absolute() if environment.is_dir() else environment)
    return environment if isinstance(environment, str) else file_of(environment, running)


def is_of_cell(target: str) -> bool:
    """Whether `target` is the file that was made of a notebook's cell."""
    return _notebook_files() in Path(target).parents


def refuse_in_import(function: str) -> None:
    """Raise ConfigError: a file calls `function` while it is imported.

    An environment's file is imported before each run of it, and would run others each time.
    """
    if (file := IMPORTS.in_this_thread()) is not None:
        raise ConfigError(
            f"{file} calls palestra.{function} while it is imported",
            hint="put the call below: if __name__ == '__main__':, in a notebook into another cell",
        )


@contextlib.contextmanager
def cell_explained(path: str) -> Iterator[None]:
    """Add a hint to an error of the body without one, when `path` was made of a notebook's cell."""
    try:
        yield
    except ConfigError as error:
        if error.hint or not is_of_cell(path):
            raise
        raise ConfigError(
            error.message,
            hint="a cell is imported alone: import and define in it what the environment needs, and "
            "put everything else into another cell",
        ) from None


def _notebook_files() -> Path:
    return cache_root().with_name(_NOTEBOOKS)


def _source_file(environment: Any, running: Sequence[Callable[..., Any]]) -> Path:
    for function in _functions_of(environment):
        code_path = function.__code__.co_filename
        path = Path(code_path)
        if path.is_file() and path.suffix == ".py" and "ipykernel" not in path.parent.name:
            return path
        if lines := linecache.getlines(code_path):
            names = _names_of(running, function.__globals__)
            imported = _imported_in(function.__globals__)
            return _written(importable_text("".join(lines), names, imported), environment.__name__)
    raise ConfigError(
        f"the source of {environment.__name__} is not there",
        hint="write the environment to a file, and pass its path",
    )


def _functions_of(environment: Any) -> Iterator[FunctionType]:
    """Yield the author's functions of an environment."""
    members = [environment, *vars(environment).values()]
    for member in members:
        function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) else None
        if isinstance(function, FunctionType):
            yield function


def _names_of(functions: Sequence[Callable[..., Any]], namespace: Mapping[str, Any]) -> set[str]:
    """Return how the code of a namespace writes the functions: `evaluate`, `palestra.evaluate`."""
    names = {name for name, value in namespace.items() if any(value is f for f in functions)}
    for name, value in namespace.items():
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "palestra":
            names |= {f"{name}.{function.__name__}" for function in functions}
    return names


def _imported_in(namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return what a namespace has of Palestra, as an expression that imports it, by name."""
    module = f"__import__({palestra.__name__!r})"
    own_names = {id(getattr(palestra, name)): name for name in palestra.__all__}
    imported = {
        name: f"{module}.{own_names[id(value)]}"
        for name, value in namespace.items()
        if id(value) in own_names
    }
    return imported | {name: module for name, value in namespace.items() if value is palestra}


def _written(text: str, name: str) -> Path:
    """Write the text of a cell to a file whose name is that of the environment."""
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = _notebook_files() / digest / f"{stem}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
