"""Reads what an environment's Python file says about itself, without importing it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FUNCTION: Final = "environment"
CLASS: Final = "Environment"
_HTTP: Final = re.compile(
    r"^\s*(?:from|import) (?:aiohttp|httpx|requests|urllib\.request|palestra\.transport)\b",
    re.MULTILINE,
)
_SANDBOX: Final = re.compile(
    r"\bself\.sandbox\b|\bSandbox\b|^\s*from nemo_gym\.sandbox\b", re.MULTILINE
)
_JUDGE: Final = re.compile(r"\bself\.judge\b")
_TOOL: Final = re.compile(r"^\s*@(?:\w+\.)?tool\b", re.MULTILINE)
_TURNS: Final = re.compile(
    r"^class \w+\(.*\b(?:TurnsServer|GymnasiumServer)\b|^    (?:async )?def reply\(self, answer",
    re.MULTILINE,
)
_MARKS: Final = (b"@environment", b"@palestra.environment", b"Environment)")


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """What a Python source shows of an environment."""

    has_tools: bool = False
    takes_turns: bool = False
    needs_sandbox: bool = False
    needs_judge: bool = False
    needs_network: bool = False

    def together(self, traits: "SourceTraits") -> "SourceTraits":
        """Return what either of two sources shows."""
        return SourceTraits(
            self.has_tools or traits.has_tools,
            self.takes_turns or traits.takes_turns,
            self.needs_sandbox or traits.needs_sandbox,
            self.needs_judge or traits.needs_judge,
            self.needs_network or traits.needs_network,
        )


@dataclass(frozen=True, slots=True)
class FileEnvironment:
    """An environment in one Python file. `name`: its class or function."""

    path: Path
    name: str
    description: str
    """The first line of its docstring, else of the file's."""
    documentation: str
    """Its whole docstring, else that of the file."""
    settings: tuple[tuple[str, str, str, str], ...]
    """Its annotated class attributes: name, type, default, and the docstring below."""
    rows: int | None
    """How many rows it has, when they are written as a list in the file; else None."""
    traits: SourceTraits


def source_traits(text: str) -> SourceTraits:
    """Return what a source shows."""
    return SourceTraits(
        has_tools=bool(_TOOL.search(text)),
        takes_turns=bool(_TURNS.search(text)),
        needs_sandbox=bool(_SANDBOX.search(text)),
        needs_judge=bool(_JUDGE.search(text)),
        needs_network=bool(_HTTP.search(text)),
    )


def file_environments(folder: Path) -> list[FileEnvironment]:
    """Return the one-file environments in a folder, by name. Files that cannot be parsed are left
    out.
    """
    environments: list[FileEnvironment] = []
    for path in sorted(folder.glob("*.py")):
        environments += environments_in_file(path)
    return environments


def environments_in_file(path: Path) -> list[FileEnvironment]:
    """Return the environments that a Python file defines; none when it cannot be read."""
    try:
        source = path.read_bytes()
        if not any(mark in source for mark in _MARKS):
            return []
        text = source.decode("utf-8-sig")
        module = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return []
    traits = source_traits(text)
    return [
        FileEnvironment(
            path=path,
            name=node.name,
            description=_docstring(node, module).partition("\n")[0].strip(),
            documentation=_docstring(node, module),
            settings=tuple(_settings(node)),
            rows=_rows_of(node, module),
            traits=traits,
        )
        for node in module.body
        if _is_environment(node)
        and isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _is_environment(node: ast.stmt) -> bool:
    if isinstance(node, ast.ClassDef):
        return any(_last_name(base) == CLASS for base in node.bases)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return any(_last_name(decorator) == FUNCTION for decorator in node.decorator_list)
    return False


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


Definition = ast.AsyncFunctionDef | ast.ClassDef | ast.FunctionDef


def _docstring(node: Definition, module: ast.Module) -> str:
    return ast.get_docstring(node) or ast.get_docstring(module) or ""


def _settings(node: Definition) -> Iterator[tuple[str, str, str, str]]:
    if not isinstance(node, ast.ClassDef):
        return
    for field, below in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            meaning = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                meaning = str(below.value.value)
            default = "" if field.value is None else ast.unparse(field.value)
            yield field.target.id, ast.unparse(field.annotation), default, meaning


def _rows_of(node: ast.AST, module: ast.Module) -> int | None:
    """Return the number of rows of a list that is the `data`, here or by the name of a list."""
    data = _data_of(node)
    if isinstance(data, ast.Name):
        values = {
            target.id: statement.value
            for statement in module.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        data = values.get(data.id)
    return len(data.elts) if isinstance(data, ast.List) else None


def _data_of(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.ClassDef):
        for statement in node.body:
            if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "data" for target in statement.targets
            ):
                return statement.value
        return None
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    keywords = [k for call in decorators if isinstance(call, ast.Call) for k in call.keywords]
    return next((keyword.value for keyword in keywords if keyword.arg == "data"), None)
