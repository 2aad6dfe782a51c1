"""The wheel of this checkout, installed where nothing of the checkout is there to help."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
UV = [sys.executable, "-m", "uv"]


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, in `folder`. Skips where its build backend cannot be fetched."""
    command = [*UV, "build", "--wheel", "--out-dir", str(folder), str(REPOSITORY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode and "hatchling" in done.stderr:
        pytest.skip("the build needs hatchling, which cannot be fetched here")
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


def environment_of(wheel: Path, folder: Path) -> Path:
    """The Python of a virtual environment in `folder` with the wheel and its own commands.

    Its dependencies are those of this Python, of whose Palestra it sees nothing.
    """
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    command = [*UV, "pip", "install", "--quiet", "--no-deps", "--python", str(python), str(wheel)]
    subprocess.run(command, timeout=100, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Only a path: the links of editable installs, which are in files like this one, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python
