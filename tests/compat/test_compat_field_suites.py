"""Suites that import only `nemo_gym.*` and the servers of their project pass with our plugin."""

from pathlib import Path

import pytest
from field_project import FIELD, run_tests

pytestmark = pytest.mark.timeout(120)


@pytest.mark.slow
def test_servers_of_many_styles_pass() -> None:
    ended = run_tests(FIELD / "styles")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "skipped" not in ended.stdout


@pytest.mark.slow
def test_an_async_test_that_fails_fails(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text("async def test_wrong():\n    assert 1 == 2\n")

    assert run_tests(tmp_path).returncode == 1


@pytest.mark.slow
def test_settings_and_options_of_absent_plugins_are_known(tmp_path: Path) -> None:
    (tmp_path / "test_right.py").write_text("async def test_right():\n    pass\n")
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\nasyncio_mode = auto\naddopts = --strict-markers\n")

    ended = run_tests(tmp_path, "-c", str(settings), "-W", "error", "--cov=.", "--cov-report=term")

    assert ended.returncode == 0, ended.stdout + ended.stderr
