"""The notebooks of `examples` run as they stand, inside a running event loop as in Jupyter."""

import ast
import asyncio
import json
import linecache
from pathlib import Path
from typing import Any

import pytest
from documents import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "examples").glob("*.ipynb"))


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    cells = json.loads(notebook.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown_by(cell: str, number: int, namespace: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last expression, as Jupyter shows it."""
    name = f"/tmp/ipykernel_0/{number}.py"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    body = ast.parse(cell).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), name, "exec"), namespace)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)


async def values_of(notebook: Path) -> list[Any]:
    """The values that the cells of a notebook show."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    sources = ["".join(cell["source"]) for cell in cells_of(notebook)]
    return [shown_by(source, number, namespace) for number, source in enumerate(sources)]


@pytest.mark.source
@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))

    values = asyncio.run(values_of(notebook))

    tables = [value for value in values if hasattr(value, "_repr_html_")]
    assert len(tables) >= 2
    assert all("<" in value._repr_html_() for value in tables)


@pytest.mark.source
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(notebook: Path) -> None:
    assert all(not cell["outputs"] for cell in cells_of(notebook))


@pytest.mark.source
def test_there_are_three_notebooks() -> None:
    assert len(NOTEBOOKS) == 3
