"""The wheel of this checkout, installed where nothing of the checkout is there to help."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
UV = [sys.executable, "-m", "uv"]
_WHERE = "import os, palestra, sys; print(os.path.dirname(palestra.__file__), *sys.path, sep='\\n')"


@dataclass(frozen=True)
class Installation:
    """A virtual environment, made as a user makes it, with the wheel in it."""

    folder: Path

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return subprocess.run(
            [self.scripts / command[0], *command[1:]],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def scripts(self) -> Path:
        return self.folder / "bin"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a shell in which it is activated."""
        return {
            **os.environ,
            "PATH": f"{self.scripts}:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(self.folder),
            "PYTHONPATH": "",
            # What the tests compare is what the installation wrote.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def package(self) -> Path:
        """Where it has Palestra. Nothing that its Python can import is in the checkout."""
        done = subprocess.run(
            [self.scripts / "python", "-c", _WHERE],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        package, *importable = done.stdout.splitlines()
        assert Path(package).is_relative_to(self.folder)
        assert not [path for path in importable if Path(path).is_relative_to(REPOSITORY / "src")]
        return Path(package)


def build(kind: str, source: Path, folder: Path) -> Path:
    """What `uv build` makes of a checkout or an sdist, in `folder`. `kind`: `--wheel` or `--sdist`.

    Skips where its build backend cannot be fetched.
    """
    command = [*UV, "build", kind, "--out-dir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode and "hatchling" in done.stderr:
        pytest.skip("the build needs hatchling, which cannot be fetched here")
    assert done.returncode == 0, done.stderr
    (made,) = (path for path in folder.iterdir() if path.suffix in {".whl", ".gz"})
    return made


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, in `folder`."""
    return build("--wheel", REPOSITORY, folder)


def install_wheel(wheel: Path, folder: Path, *, extra: str = "[nemo-gym]") -> Installation:
    """The wheel and what an extra brings (the FAQ's one, unless another is named), in the versions
    of the lock.
    """
    made = Installation(folder)
    lock = REPOSITORY / "requirements.lock"
    named = f"palestra{extra} @ {wheel.as_uri()}"
    options = ["--python", str(folder), "--constraint", str(lock)]
    for command in (
        ["venv", "--quiet", "--python", sys.executable, str(folder)],
        ["pip", "install", *options, named],
    ):
        done = subprocess.run(
            [*UV, *command], capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
    assert made.package().name == "palestra"
    return made
