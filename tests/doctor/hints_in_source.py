"""The errors with hints that the source raises, and the names that a hint may use."""

import ast
import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer.main

import palestra
from palestra.cli.main import app
from palestra.errors import PalestraError

ROOT = Path(palestra.__file__).parent


@dataclass(frozen=True)
class Raised:
    """One place where an error is made; what is filled in at run time is an X in its texts."""

    where: str
    error: type[PalestraError]
    message: str
    hint: str


def raised_with_hints() -> Iterator[Raised]:
    for path in sorted(ROOT.rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if is_hinted(node)]
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(("palestra", *parts))) if calls else None
        for call in calls:
            kind = getattr(module, name_of(call.func), None)
            if isinstance(kind, type) and issubclass(kind, PalestraError):
                hint = next(word.value for word in call.keywords if word.arg == "hint")
                where = f"{path.relative_to(ROOT)}:{call.lineno}"
                yield Raised(where, kind, text_of(call.args[0]), text_of(hint))


def is_hinted(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and bool(node.args)
        and any(word.arg == "hint" for word in node.keywords)
    )


def name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def text_of(node: ast.AST) -> str:
    """The text of an expression, with an X in the place of what is not known."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(text_of, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
    return "X"


def literals(folder: Path) -> Iterator[tuple[str, str]]:
    """Every text that stands in the code of a folder, with where."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.name}:{node.lineno}", node.value


@functools.cache
def flags_of_palestra() -> set[str]:
    found: set[str] = set()
    for command in _commands():
        params = getattr(command, "params", [])
        found |= {opt for param in params for opt in param.opts if opt.startswith("--")}
    return found | {"--help", "--version"}


@functools.cache
def commands_of_palestra() -> set[str]:
    return {str(getattr(command, "name", "")) for command in _commands()}


def _commands() -> list[object]:
    todo: list[object] = [typer.main.get_command(app)]
    found: list[object] = []
    while todo:
        command = todo.pop()
        found.append(command)
        todo += getattr(command, "commands", {}).values()
    return found
