"""Turns a class or a function into the file that defines it, because servers import files."""

import hashlib
import inspect
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from palestra.errors import ConfigError
from palestra.fleet import cache_root
from palestra.server import class_of

_IMPORTED_FILES: Final = "palestra_user_"
"""The beginning of the names under which servers import files."""
_NOTEBOOKS: Final = "notebooks"


def file_of(environment: Any) -> str:
    """Return `FILE.py:NAME` for a subclass of `Environment`, or a function with `@environment`.

    One that is defined in a notebook's cell gets a file with the text of this cell. Raises
    ConfigError: the object is no environment, or its source is not there.
    """
    if class_of(environment) is None:
        raise ConfigError(
            f"{environment!r} is no environment",
            hint="pass a path, a name, a subclass of palestra.Environment, or a function with "
            "@environment",
        )
    if environment.__module__.startswith(_IMPORTED_FILES):
        raise ConfigError(
            f"the file of {environment.__name__} calls palestra.evaluate while it is imported",
            hint="put the call below: if __name__ == '__main__':",
        )
    path = _source_file(environment)
    return f"{path}:{environment.__name__}"


def forget_imported(path: str) -> None:
    """Forget the module of a file, so that it is read again: it may have been edited since."""
    absolute = str(Path(path).absolute())
    for name, module in list(sys.modules.items()):
        if name.startswith(_IMPORTED_FILES) and getattr(module, "__file__", None) == absolute:
            del sys.modules[name]


def _source_file(environment: Any) -> Path:
    for code_path in _code_paths(environment):
        path = Path(code_path)
        if path.is_file() and path.suffix == ".py" and "ipykernel" not in path.parent.name:
            return path
        if lines := linecache.getlines(code_path):
            return _written("".join(lines), environment.__name__)
    raise ConfigError(
        f"the source of {environment.__name__} is not there",
        hint="write the environment to a file, and pass its path",
    )


def _code_paths(environment: Any) -> Iterator[str]:
    """Yield the files that the functions of an environment come from."""
    members = [environment, *vars(environment).values()]
    for member in members:
        function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) else None
        if isinstance(function, FunctionType):
            yield function.__code__.co_filename


def _written(text: str, name: str) -> Path:
    """Write the text of a cell to a file whose name is that of the environment."""
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = cache_root().with_name(_NOTEBOOKS) / digest / f"{stem}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
