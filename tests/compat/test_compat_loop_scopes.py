"""Loops that tests and fixtures of the field share, as they ask for with `loop_scope`."""

from pathlib import Path
from textwrap import dedent

import pytest
from field_project import run_tests

pytestmark = pytest.mark.timeout(120)

SUITE = """
import asyncio

import pytest
import pytest_asyncio

LOOPS = []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    yield asyncio.get_running_loop()


@pytest_asyncio.fixture(loop_scope="module")
async def waiting(shared):
    return asyncio.get_running_loop().create_future()


@pytest_asyncio.fixture
async def plain():
    return asyncio.get_running_loop()


@pytest.mark.asyncio(loop_scope="module")
async def test_first():
    LOOPS.append(asyncio.get_running_loop())


@pytest.mark.asyncio(loop_scope="module")
async def test_second(shared, waiting):
    assert LOOPS == [asyncio.get_running_loop()] == [shared] == [waiting.get_loop()]


async def test_its_own(plain):
    assert plain is asyncio.get_running_loop()
"""

OF_CLASSES = """
import asyncio

import pytest


@pytest.mark.asyncio(loop_scope="class")
class TestOfOne:
    loop = None

    async def test_first(self):
        TestOfOne.loop = asyncio.get_running_loop()

    async def test_second(self):
        assert TestOfOne.loop is asyncio.get_running_loop()
"""

OF_FUNCTIONS = """
import asyncio

LOOPS = []


async def test_first():
    LOOPS.append(asyncio.get_running_loop())


async def test_second():
    assert LOOPS[0] is not asyncio.get_running_loop()
    assert LOOPS[0].is_closed()
"""


@pytest.mark.slow
@pytest.mark.parametrize("suite", [SUITE, OF_CLASSES, OF_FUNCTIONS])
def test_tests_and_fixtures_run_on_the_loop_of_their_scope(tmp_path: Path, suite: str) -> None:
    (tmp_path / "test_scopes.py").write_text(dedent(suite))

    ended = run_tests(tmp_path, "-W", "error")

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_the_configured_default_scope_is_taken(tmp_path: Path) -> None:
    (tmp_path / "test_scopes.py").write_text(
        "import asyncio\nLOOPS = []\n"
        "async def test_first():\n    LOOPS.append(asyncio.get_running_loop())\n"
        "async def test_second():\n    assert LOOPS == [asyncio.get_running_loop()]\n"
    )
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\nasyncio_default_test_loop_scope = module\n")

    ended = run_tests(tmp_path, "-c", str(settings))

    assert ended.returncode == 0, ended.stdout + ended.stderr
