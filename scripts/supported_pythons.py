"""The Pythons of this machine that Palestra supports: one path a line, one of each, lowest first.

Looks for `python3.X` in the PATH, and beside pyenv's shims: a shim may exist for a Python that it
does not find. Only one that runs, and can make an environment, counts.
"""

import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
PROBE = "import ensurepip, sys, venv; print('%s.%s' % sys.version_info[:2])"
PROBE_WITHIN_S = 20


def supported(requires: str) -> list[str]:
    """The versions that `>=3.11,<3.14` admits."""
    lowest, beyond = (int(minor) for minor in re.findall(r"3\.(\d+)", requires))
    return [f"3.{minor}" for minor in range(lowest, beyond)]


def candidates(version: str, path: str) -> Iterator[Path]:
    """Files that may be the Python of a version, in the order of the PATH."""
    for folder in (Path(entry) for entry in path.split(os.pathsep) if entry):
        yield folder / f"python{version}"
        if folder.name == "shims":
            yield from sorted(folder.parent.glob(f"versions/*/bin/python{version}"))


def works(python: Path, version: str) -> bool:
    """Whether it runs, is of that version, and can make an environment."""
    try:
        done = subprocess.run(  # noqa: S603  # a Python of this machine
            [python, "-c", PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def found(versions: Iterable[str], path: str) -> Iterator[Path]:
    """For each version the first candidate that works."""
    for version in versions:
        python = next((p for p in candidates(version, path) if works(p, version)), None)
        if python is not None:
            yield python


if __name__ == "__main__":
    requires = tomllib.loads(PYPROJECT.read_text())["project"]["requires-python"]
    for python in found(supported(requires), os.environ.get("PATH", "")):
        print(python)
