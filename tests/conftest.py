"""What holds for every test."""

import contextlib
import faulthandler
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from forked_commands import ForkedCommands
from installed_wheel import Installation, build_wheel, install_wheel

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("palestra", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=5_000)
settings.load_profile("palestra")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, the larger ones before: else the last one keeps a core idle."""
    sizes = Counter(item.path for item in items)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    places = {path: place for place, path in enumerate(sizes)}
    items.sort(key=lambda item: (-slow[item.path], -sizes[item.path], places[item.path]))


STDERR = pytest.StashKey[int]()
LIMIT_S = 60.0
"""The `timeout` of pyproject.toml, also where a test runs these files under another configuration."""


def pytest_configure(config: pytest.Config) -> None:
    # nothing is captured yet
    config.stash[STDERR] = os.dup(2)
    # A shell ignores Ctrl-C for what it starts in the background, and every command of a test
    # would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test that never lets go of the interpreter's lock ends its process.

    pytest-timeout cannot end it: it needs that lock. xdist reports the test as failed and goes on
    with another process.
    """
    marker = item.get_closest_marker("timeout")
    limit_s = float(marker.args[0] if marker and marker.args else LIMIT_S)
    faulthandler.dump_traceback_later(2 * limit_s, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session", autouse=True)
def lean_pytest_in_tests() -> Iterator[None]:
    """A pytest that a test starts loads none of the plugins that take two seconds to import."""
    unneeded = ("schemathesis", "hypothesispytest", "xdist", "xdist.looponfail")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{plugin}" for plugin in unneeded))
        yield


@pytest.fixture(scope="module", autouse=True)
def no_fleet_is_left() -> Iterator[None]:
    """A file of tests closes its fleets: an open one would start its Ray cluster as soon as a test
    of another file imports Ray.
    """
    yield
    assert "PALESTRA_FLEET_RAY" not in os.environ


@pytest.fixture(scope="module", autouse=True)
def imports_start_anew() -> Iterator[None]:
    """Where an author's file is imported in a test's process, its folder stays importable: a file
    of tests that comes later would import that one's modules.
    """
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(scope="session")
def commands() -> Iterator[ForkedCommands | None]:
    """What runs console scripts at little cost; none where processes cannot be watched so."""
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    with contextlib.closing(ForkedCommands()) as commands:
        yield commands


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Where that wheel is installed, as by a user."""
    return install_wheel(wheel, tmp_path_factory.mktemp("installation") / "venv")
