"""CI finds the Pythons of a machine, also where what is in the PATH does not work."""

import os
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

from documents import REPOSITORY

PYTHONS: dict[str, Any] = runpy.run_path(str(REPOSITORY / "scripts" / "supported_pythons.py"))
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_shim_that_does_not_work_gives_way_to_the_python_beside_it(tmp_path: Path) -> None:
    shim = program(tmp_path / "shims" / f"python{VERSION}", "exit 127")
    real = tmp_path / "versions" / "x" / "bin" / f"python{VERSION}"
    program(real, f'exec {sys.executable} "$@"')

    assert list(PYTHONS["found"]([VERSION], str(shim.parent))) == [real]


def test_a_python_of_another_version_than_its_name_is_none(tmp_path: Path) -> None:
    other = program(tmp_path / "python3.99", f'exec {sys.executable} "$@"')
    path = os.pathsep.join((str(other.parent), str(tmp_path / "nowhere")))

    assert list(PYTHONS["found"](["3.99"], path)) == []


PYPROJECT = (REPOSITORY / "pyproject.toml").read_text()


def test_the_tests_are_run_on_the_lowest_version_first() -> None:
    assert PYTHONS["tested"](PYPROJECT)[0] == PYTHONS["lowest"](PYPROJECT)


def test_a_version_that_was_not_tested_is_said_and_not_refused() -> None:
    assert PYTHONS["problem"]((3, 99), PYPROJECT) == ""
    assert "3.99" in PYTHONS["remark"]((3, 99), PYPROJECT)


def test_a_version_that_was_tested_is_not_worth_a_line() -> None:
    assert PYTHONS["remark"]((3, 11), PYPROJECT) == ""


def test_a_version_that_is_too_old_is_refused() -> None:
    assert "3.11 or later" in PYTHONS["problem"]((3, 10), PYPROJECT)


def test_no_later_version_is_excluded() -> None:
    for project in (REPOSITORY, REPOSITORY / "packages" / "palestra-gym"):
        requires = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        assert requires["requires-python"] == ">=3.11"
