"""Whether a folder's tests pass: how many they are, and where they do not end."""

import asyncio
from pathlib import Path

import pytest

from palestra.authoring import check_folder

pytestmark = [pytest.mark.slow, pytest.mark.alone]

HOLDING = 'import re\nre.match(r"(a+)+$", "a" * 40 + "b")\n'


def test_tests_that_do_not_end_are_stopped_in_time_and_say_where_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "resources_servers/holding"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests/test_app.py").touch()
    early = tmp_path / "sitecustomize.py"  # Python imports it before pytest, which starts slowly
    early.write_text(HOLDING)

    report = asyncio.run(check_folder(folder, timeout_s=3, data=False))

    tests = report.checks[0]
    assert not tests.passed
    assert "not done within 3 s" in tests.note
    assert f"{early}:2" in tests.note
    assert report.seconds < 3 + 4


def test_the_number_of_tests_is_given_where_the_project_makes_pytest_quiet(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q\n")
    folder = tmp_path / "resources_servers/sums"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests/test_app.py").write_text("def test_nothing() -> None: ...\n")

    report = asyncio.run(check_folder(folder, data=False, readme=False))

    assert report.passed
    assert report.checks[0].note.startswith("1 passed in ")
