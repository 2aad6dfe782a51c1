"""Commands that read the files of runs, or print the version, do not wait for the code of servers."""

import subprocess
import sys

import pytest

SERVERS = ("fastapi", "palestra.server", "palestra.fleet", "palestra.training", "palestra.sandbox")
RUNNING = (*SERVERS, "numpy", "palestra.api")


@pytest.mark.parametrize(
    "module", ["palestra.analysis", "palestra.records", "palestra.cli.viewing"]
)
def test_reading_runs_imports_no_server(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {SERVERS!r} if m in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "function", "words"),
    [
        ("palestra.cli.ng", "version", []),
        ("palestra.cli.gym", "main", ["--version"]),
        ("palestra.cli.entry", "main", ["--version"]),
        ("palestra.cli.entry", "main", ["version", "--json"]),
    ],
)
def test_printing_the_version_imports_nothing_that_runs(
    module: str, function: str, words: list[str]
) -> None:
    code = (
        f"import atexit, sys; sys.argv[1:] = {words}; from {module} import {function} as start; "
        f"atexit.register(lambda: print([m for m in {RUNNING} if m in sys.modules])); start()"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "[]"
