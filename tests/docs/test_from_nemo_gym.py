"""The page for users of NeMo Gym says what their commands print here, now."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from documents import REPOSITORY, blocks

from installed_wheel import Installation

PAGE = REPOSITORY / "docs" / "reference" / "from-nemo-gym.md"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_every_command_of_the_field_is_on_the_page() -> None:
    typed = "\n".join(block.text for block in blocks(PAGE) if block.language == "bash")
    names = {name for name in PROJECT["scripts"] if name.startswith("ng_")}

    assert names - set(re.findall(r"\bng_\w+", typed)) == set()


def test_no_row_of_the_page_says_anything_but_works() -> None:
    rows = re.findall(r"^\| \[.*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)

    assert len(rows) == PAGE.read_text().count("\n## ")
    assert set(rows) == {"works"}


def test_every_module_that_folders_import_is_on_the_page() -> None:
    package = importlib.import_module("palestra.compat.nemo_gym")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}

    assert modules - set(re.findall(r"`(\w+)`", PAGE.read_text())) == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_is_what_its_commands_print(tmp_path: Path, installation: Installation) -> None:
    made = tmp_path / "page.md"

    done = subprocess.run(
        [
            sys.executable,
            "scripts/from_nemo_gym.py",
            str(made),
            f"--installation={installation.folder}",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=890,
        check=False,
    )

    if "Ray cluster for this fleet did not start" in done.stderr:
        pytest.skip("Ray itself did not start")
    assert done.returncode == 0, done.stderr
    assert made.read_text() == PAGE.read_text(), "python scripts/from_nemo_gym.py renews it"
