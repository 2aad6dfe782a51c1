"""What the core depends on: few packages, and each that it imports is one of them."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = REPOSITORY / "src" / "palestra"
PROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

MOST_DEPENDENCIES: Final = 18
DISTRIBUTIONS: Final = {
    "hydra": "hydra_core",
    "yaml": "pyyaml",
    "pydantic_core": "pydantic",  # pinned by it, to the exact version
    "typing_extensions": "pydantic",  # whose documents ask for its TypedDict before Python 3.12
}
"""Where a module has another name than what is declared for it."""
OF_EXTRAS: Final = (
    "compat/http.py",
    "compat/nemo_gym/server_utils.py",
    "compat/pytest_plugin.py",
    "datasets/hub",
    "datasets/registry",
    "resources_servers/math_with_judge",
    "responses_api_agents/mcp_agent",
    "responses_api_agents/verifiers_agent",
    "testing/fleets.py",
)
"""Code that is imported only where an extra is installed."""
OURS: Final = {"palestra", "frames"}
"""`frames` lies beside the programs that run in a sandbox."""
CODE_OF_OTHERS: Final = ("tests", "templates")
"""Folders whose files run in a test, or elsewhere."""

pytestmark = pytest.mark.source


def core() -> set[str]:
    """The declared names, as modules spell them."""
    names = (re.split(r"[^A-Za-z0-9._-]", item)[0] for item in PROJECT["dependencies"])
    return {name.lower().replace("-", "_") for name in names}


def imported_at_once(nodes: list[ast.stmt]) -> Iterator[str]:
    """The modules that a file imports as it is imported; none of those for type checkers only."""
    for node in nodes:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imported_at_once(node.orelse)
            case ast.If() | ast.Try():
                yield from imported_at_once([*node.body, *node.orelse])


def undeclared(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    tops = {module.partition(".")[0] for module in imported_at_once(tree.body)}
    foreign = tops - sys.stdlib_module_names - OURS
    return {module for module in foreign if DISTRIBUTIONS.get(module, module) not in core()}


def test_the_core_has_few_direct_dependencies() -> None:
    assert len(PROJECT["dependencies"]) <= MOST_DEPENDENCIES


@pytest.mark.slow
def test_what_the_core_imports_is_declared() -> None:
    of_core = (
        path
        for path in SOURCES.rglob("*.py")
        if not str(path.relative_to(SOURCES)).startswith(OF_EXTRAS)
        and not set(CODE_OF_OTHERS) & set(path.parts[len(SOURCES.parts) :])
    )

    missing = {str(path.relative_to(SOURCES)): undeclared(path) for path in of_core}

    assert {path: modules for path, modules in missing.items() if modules} == {}
