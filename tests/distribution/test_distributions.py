"""The sdist and the wheel hold every file that they should, and no other."""

import subprocess
import tarfile
from configparser import ConfigParser
from email.parser import Parser
from pathlib import Path
from pkgutil import resolve_name
from typing import Final
from zipfile import ZipFile

import pytest

from installed_wheel import build

REPOSITORY: Final = Path(__file__).resolve().parents[2]
MOVED: Final = {"src/palestra/": "palestra/", "skills/": "palestra/skills/", "startup/": ""}
"""Where the wheel has the folders of the checkout."""

pytestmark = [pytest.mark.slow, pytest.mark.source, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """The files of the checkout."""
    command = ["git", "ls-files", "-z", "--cached"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no checkout of git")
    return {name for name in done.stdout.split("\0") if (REPOSITORY / name).is_file()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this checkout."""
    return build("--sdist", REPOSITORY, tmp_path_factory.mktemp("sdist"))


def names_in(wheel: Path) -> set[str]:
    """The files of a wheel, without those that describe it."""
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def described(wheel: Path, name: str) -> str:
    """A file that describes the wheel."""
    with ZipFile(wheel) as archive:
        (path,) = (path for path in archive.namelist() if path.endswith(f".dist-info/{name}"))
        return archive.read(path).decode()


def test_the_wheel_has_the_package_the_skills_and_the_names_of_the_field(
    wheel: Path, tracked: set[str]
) -> None:
    expected = {
        new + name.removeprefix(old)
        for old, new in MOVED.items()
        for name in tracked
        if name.startswith(old)
    }

    assert names_in(wheel) == expected


def test_the_sdist_has_every_file_of_the_checkout(sdist: Path, tracked: set[str]) -> None:
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}

    assert names - tracked == {"PKG-INFO"}
    assert tracked - names == set()


def test_the_wheel_of_the_sdist_is_that_of_the_checkout(
    sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    again = build("--wheel", sdist, tmp_path)

    assert names_in(again) == names_in(wheel)
    for name in ("METADATA", "entry_points.txt"):
        assert described(again, name) == described(wheel, name)


def test_the_description_is_the_readme(wheel: Path) -> None:
    metadata = Parser().parsestr(described(wheel, "METADATA"))

    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_payload() == (REPOSITORY / "README.md").read_text()


def test_every_program_of_the_wheel_is_a_function(wheel: Path) -> None:
    parsed = ConfigParser()
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(described(wheel, "entry_points.txt"))

    assert "palestra" in parsed["console_scripts"]
    assert all(callable(resolve_name(target)) for target in parsed["console_scripts"].values())
