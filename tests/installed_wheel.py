"""The wheel of this checkout, installed where nothing of the checkout is there to help."""

import subprocess
import sys
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
