"""Which Pythons Palestra runs on, and which of this machine its tests run on.

`supported_pythons.py`: the Pythons of this machine that the tests are run on, one path a line, one
of each version, lowest first. `supported_pythons.py check`: ends with an error when this Python is
too old, and says in a line when it is one that the tests were not run on.

Looks for `python3.X` in the PATH, and beside pyenv's shims: a shim may exist for a Python that it
does not find. Only one that runs, and can make an environment, counts.
"""

from __future__ import annotations  # a Python that is too old has to get as far as `check`

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
PROBE = "import ensurepip, sys, venv; print('%s.%s' % sys.version_info[:2])"
PROBE_WITHIN_S = 20


def lowest(pyproject: str) -> str:
    """The version that `requires-python = ">=3.11"` begins with."""
    return re.findall(r'^requires-python = ">=(3\.\d+)"$', pyproject, re.MULTILINE)[0]


def tested(pyproject: str) -> list[str]:
    """The versions that the classifiers name, lowest first."""
    return re.findall(
        r'^    "Programming Language :: Python :: (3\.\d+)",$', pyproject, re.MULTILINE
    )


def problem(version: tuple[int, int], pyproject: str) -> str:
    """Why this version cannot be used; empty when it can."""
    least = lowest(pyproject)
    if version >= tuple(map(int, least.split("."))):
        return ""
    return (
        f"Palestra needs Python {least} or later; {sys.executable} is {version[0]}.{version[1]}. "
        "Give another one: make demo PYTHON=python3.12"
    )


def remark(version: tuple[int, int], pyproject: str) -> str:
    """What to know of a version that the tests were not run on; empty for one that they were."""
    if "{}.{}".format(*version) in tested(pyproject):
        return ""
    names = ", ".join(tested(pyproject))
    return "Python {}.{} is not one that the tests were run on ({}); going on".format(
        *version, names
    )


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


def main(arguments: list[str]) -> None:
    """Check this Python, or list those of the machine."""
    pyproject = PYPROJECT.read_text(encoding="utf-8")
    if arguments == ["check"]:
        this = (sys.version_info[0], sys.version_info[1])
        reason = problem(this, pyproject)
        if reason:
            sys.exit(reason)
        line = remark(this, pyproject)
        if line:
            print(line)
        return
    for python in found(tested(pyproject), os.environ.get("PATH", "")):
        print(python)


if __name__ == "__main__":
    main(sys.argv[1:])
