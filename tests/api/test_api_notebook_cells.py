"""An environment and the call that runs it, in one cell of a notebook."""

import asyncio
import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import palestra
from palestra.api.notebook_cells import importable_text
from palestra.errors import ConfigError
from palestra.testing import scripted_endpoint

SUMS = """
import palestra
from palestra import Environment, environment

class TinySums(Environment):
    data = [{"q": "1+0"}]
    prompt = "{q}"
    def verify(self, answer):
        return is_one(answer)

first = palestra.evaluate(TinySums, model=MODEL, progress=False)

@environment(data=[{"q": "2+0"}], prompt="{q}")
def verify(answer):
    return 2 * is_one(answer)

def is_one(answer):
    return answer == "1"

second = palestra.evaluate(verify, model=MODEL, progress=False)
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    with scripted_endpoint(*["1"] * 4) as endpoint:
        yield f"vllm:{endpoint.url}"


def run_cell(text: str, number: int, **names: Any) -> dict[str, Any]:
    """Run a cell inside a running event loop, and return its names."""
    file = f"/tmp/ipykernel_7/{number}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": "__main__", **names}

    async def kernel() -> None:
        exec(compile(text, file, "exec"), namespace)

    asyncio.run(kernel())
    return namespace


@pytest.mark.slow
def test_a_cell_defines_environments_and_runs_them(model: str) -> None:
    names = run_cell(SUMS, 1, MODEL=model)

    first, second = names["first"], names["second"]
    assert (first.environment, first.mean_reward) == ("tiny_sums", 1.0)
    assert (second.environment, second.mean_reward) == ("verify", 2.0)


@pytest.mark.slow
def test_a_cell_that_needs_another_one_is_a_short_error_with_a_hint(model: str) -> None:
    text = SUMS.replace('[{"q": "1+0"}]', "ROWS")

    with pytest.raises(ConfigError, match=r"tiny_sums.py:6.*'ROWS' is not defined") as caught:
        run_cell(text, 2, MODEL=model, ROWS=[{"q": "1"}])

    assert "another cell" in caught.value.hint
    files = [str(entry.path) for entry in caught.traceback]
    assert not [file for file in files if file.endswith("loading.py")]
    assert caught.value.__cause__ is None


@pytest.mark.slow
def test_a_cell_uses_what_another_one_has_imported_of_palestra(model: str) -> None:
    text = SUMS.replace("import palestra\nfrom palestra import Environment, environment\n", "")
    text = text.replace("@environment", "@p.environment").replace("palestra.", "p.")
    names = run_cell(text, 3, MODEL=model, p=palestra, Environment=palestra.Environment)

    assert (names["first"].mean_reward, names["second"].mean_reward) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("cell", "importable"),
    [
        ("@p.made(p.x)\ndef f():\n  p.y", "@P.made(P.x)\ndef f():\n  p.y\np = P"),
        ("class A(p.B): ö = 1, p.c", "class A(P.B): ö = 1, P.c\np = P"),
        ("import p\np.x", "import p\np.x"),
        ("def f(): p.y\n", "def f(): p.y\n\np = P"),
        ("x = 1", "x = 1"),
        ("a = p.x; r = p.evaluate(A); b = p.y", "a = P.x; pass; b = P.y\np = P"),
        ("p.evaluate(p.x)", "pass"),
    ],
)
def test_the_imports_of_other_cells_are_put_in_on_the_same_lines(
    cell: str, importable: str
) -> None:
    assert importable_text(cell, {"p.evaluate"}, {"p": "P"}) == importable


@pytest.mark.parametrize(
    ("cell", "importable"),
    [
        ("x = 1; run = evaluate(A); y = 2", "x = 1; pass; y = 2"),
        ("é = 'é'; run = evaluate(\n  A,\n)\ny = 2", "é = 'é'; pass\n\n\ny = 2"),
        ("run = await evaluate(A)\nprint(run)\nrows = 3", "pass\npass\nrows = 3"),
        ("def go():\n  return evaluate(A)\ngo()\n", "def go():\n  return evaluate(A)\npass\n"),
        ("class A:\n  f = evaluate\nA.data = 1", "class A:\n  f = evaluate\nA.data = 1"),
        ("rows.evaluate(1)", "rows.evaluate(1)"),
        ("get_ipython().system('ls')\nimport os", "pass\nimport os"),
    ],
)
def test_what_runs_an_environment_is_no_part_of_the_imported_text(
    cell: str, importable: str
) -> None:
    assert importable_text(cell, {"evaluate"}) == importable
