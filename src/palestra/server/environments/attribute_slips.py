"""Find attributes of an author's class that look like slips of those of `Environment`.

A class may have attributes of its own. One is a slip only when it is very similar to an attribute
with a meaning, and no code of the author reads it: `max_turn = 4`, which nothing reads as
`self.max_turn`.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from palestra.config import is_one_slip, slip_of
from palestra.errors import ConfigError
from palestra.server.author_code import AuthorFiles
from palestra.server.tools import is_tool

_METHODS: Final = frozenset({"start", "verify", "reply", "messages", "gold"})
"""What `Environment` leaves to the author."""

_OUR_NAMES: Final = {
    "dataset": "data",
    "max_steps": "max_turns",
    "rewards": "weights",
    "system_prompt": "system",
}
"""Our names of attributes, by those that another library has for them."""


_INSTEAD_OF: Final = {
    "parser": "read the answer in `verify`",
    "rubric": "`verify` scores; it may return several rewards by their names",
    "scorer": "`verify` scores; it may return several rewards by their names",
    "solver": "write `messages`, `reply` or methods with @tool",
    "tools": "write methods with @tool above them; a function without self: look = staticmethod(look)",
}
"""What to write for attributes that another library reads and we do not."""


def refuse_slips(
    cls: type[Any], base: type[Any], files: AuthorFiles, location: Callable[[str], str]
) -> None:
    """Raise ConfigError when an attribute of `cls` is most likely a slip of one of `base`. `files`:
    read the author's code. `location`: where that code sets an attribute, by name.
    """
    for owner, name, near in _similar_names(cls, base):
        if not _is_read(name, cls, base, files):
            raise ConfigError(
                f"{location(name)}nothing reads {owner.__name__}.{name}; did you mean {near!r}?",
                hint=f"write {near}; an attribute of your own needs a name that is less similar, "
                f"or code that reads self.{name}",
            )
    for owner, name, _value in _own_attributes(cls, base):
        if name in _INSTEAD_OF and not _is_read(name, cls, base, files):
            raise ConfigError(
                f"{location(name)}nothing reads {owner.__name__}.{name}", hint=_INSTEAD_OF[name]
            )


def _similar_names(cls: type[Any], base: type[Any]) -> Iterator[tuple[type[Any], str, str]]:
    """Yield the author's classes, their attributes, and the attribute of `base` that is similar."""
    known_names = _METHODS | {name for name in dir(base) if not name.startswith("_")}
    for owner, name, value in _own_attributes(cls, base):
        if name in known_names:
            continue
        near = slip_of(name, known_names)
        if near is None and inspect.isfunction(value):
            near = next((n for n in sorted(_METHODS) if is_one_slip(name, n)), None)
        our_name = _OUR_NAMES.get(name)
        if our_name is not None and getattr(cls, our_name) is getattr(base, our_name):
            near = near or our_name  # it is not set
        if near is not None:
            yield owner, name, near


def _own_attributes(cls: type[Any], base: type[Any]) -> Iterator[tuple[type[Any], str, Any]]:
    """Yield the author's classes, and the names and values of their public attributes that are no
    tools.
    """
    for owner in cls.__mro__:
        if issubclass(owner, base) and owner is not base:
            for name, value in vars(owner).items():
                if not name.startswith("_") and not is_tool(value):
                    yield owner, name, value


def _is_read(name: str, cls: type[Any], base: type[Any], author_files: AuthorFiles) -> bool:
    """Whether the sources of the class and its ancestors, or imported files beside them, read `name`,
    or one of them has no source.
    """
    owners = {owner.__module__ for owner in cls.__mro__ if owner not in base.__mro__}
    files = [getattr(sys.modules.get(owner), "__file__", None) for owner in owners]
    folders = {Path(file).parent for file in files if file}
    return not all(files) or any(
        _reads(author_files.tree_of(file, vars(module)), name)
        for module in list(sys.modules.values())
        if (file := getattr(module, "__file__", None)) and Path(file).parent in folders
    )


def _reads(tree: ast.Module | None, name: str) -> bool:
    """Whether a file reads `name`, also as a text: getattr(self, "max_turn"). A file that cannot be
    read may.
    """
    return tree is None or any(_read_name(node) == name for node in ast.walk(tree))


def _read_name(node: ast.AST) -> object:
    match node:
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Name(id=name, ctx=ast.Load()):
            return name
        case ast.Constant(value=value):
            return value
        case _:
            return None
