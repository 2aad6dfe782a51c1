"""CI finds the Pythons of a machine, also where what is in the PATH does not work."""

import os
import runpy
import sys
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


def test_every_version_that_the_project_declares_is_looked_for() -> None:
    assert PYTHONS["supported"](">=3.11,<3.14") == ["3.11", "3.12", "3.13"]
