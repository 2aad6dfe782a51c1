"""Palestra's wheel without any extra: how much it brings, and what it says of what it lacks."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from installed_wheel import UV, Installation, install_wheel
from packers import zstd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MOST_BYTES: Final = 200 * 1000**2
NOWHERE: Final = "vllm:NAME@http://127.0.0.1:1/v1"
ENVIRONMENT: Final = """\
# /// script
# dependencies = ["no-such-package-here==1"]
# ///
from palestra import environment

@environment(data=[{"question": "2 + 2 = ?"}], prompt="{question}")
def verify(answer: str) -> float:
    return float(answer == "4")
"""


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Where the wheel is installed, with what it cannot do without."""
    return install_wheel(wheel, tmp_path_factory.mktemp("core") / "venv", extra="")


def test_it_is_small(core: Installation) -> None:
    files = [path for path in core.folder.rglob("*") if path.is_file() and not path.is_symlink()]

    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


def test_the_first_evaluation_names_the_one_extra_that_it_needs(
    core: Installation, tmp_path: Path
) -> None:
    done = core.run("palestra", "eval", "reasoning_gym", "--model", "local", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "hint: pip install 'palestra[local]'"


@pytest.mark.parametrize(
    ("environment", "extra"),
    [
        ("math_with_judge", "math"),
        ("math_with_code", "math-with-code"),
        ("instruction_following", "instruction-following"),
        ("openenv", "openenv"),
        ("reasoning_gym", "reasoning-gym"),
        ("gymnasium", "gymnasium"),
    ],
)
def test_an_environment_names_the_extra_that_it_needs(
    core: Installation, tmp_path: Path, environment: str, extra: str
) -> None:
    done = core.run("palestra", "eval", environment, "--model", NOWHERE, cwd=tmp_path)
    needs = core.run("palestra", "show", environment, cwd=tmp_path)

    assert done.returncode == 2
    assert f"pip install 'palestra[{extra}]'" in done.stderr
    assert f"extra {extra}" in needs.stdout


def test_packed_rows_name_the_extra_that_reads_them(core: Installation, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl.zst"
    rows.write_bytes(zstd.compress(b"{}"))

    done = core.run(
        "palestra", "eval", "mcqa", "--input", str(rows), "--model", NOWHERE, cwd=tmp_path
    )

    assert done.returncode == 2
    assert ("palestra[zstd]" in done.stderr) is (sys.version_info < (3, 14))


def test_an_environment_of_its_own_needs_uv(core: Installation, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENVIRONMENT)

    done = core.run("palestra", "eval", "mine.py", "--model", NOWHERE, cwd=tmp_path)

    assert "palestra[uv]" in done.stderr


def test_tests_of_a_folder_name_the_extra_that_runs_them(
    core: Installation, tmp_path: Path
) -> None:
    core.run("palestra", "init", "mine", cwd=tmp_path)

    done = core.run("palestra", "test", "mine", cwd=tmp_path)

    assert done.returncode == 1
    assert "palestra[testing]" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_doctor_names_uv_too(core: Installation, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENVIRONMENT)

    done = core.run("palestra", "doctor", "mine.py", "--model", NOWHERE, cwd=tmp_path)

    assert done.returncode == 1
    assert "palestra[uv]" in done.stdout + done.stderr


def test_one_command_runs_with_nothing_installed(wheel: Path, tmp_path: Path) -> None:
    command = ["tool", "run", "--python", sys.executable, "--from", str(wheel), "palestra", "list"]

    done = subprocess.run(
        [*UV, *command], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "reasoning_gym" in done.stdout
