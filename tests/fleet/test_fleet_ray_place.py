"""The end of a fleet's own Ray cluster, without Ray."""

import asyncio
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fleet_world import X_ALONE, Project

import palestra.fleet.fleet as fleet_module
import palestra.fleet.ray_clusters.place as ray_place
from palestra.errors import ConfigError
from palestra.fleet import Fleet
from palestra.fleet.ray_clusters.place import PID, RayPlace
from palestra.fleet.sockets import listen
from palestra.system import lock

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RayPlace:
    """With a folder, as once a cluster was made."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    place = RayPlace.of_fleet({})
    place.folder.mkdir()
    return place


@pytest.fixture
def ray_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name that is imported anew."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ray", raising=False)


@contextmanager
def sleeping(place: RayPlace, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose number is in the folder as the keeper's."""
    process = subprocess.Popen([sys.executable, "-c", SLEEP, *arguments])
    try:
        (place.folder / PID).write_text(str(process.pid))
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_keeper_of_a_fleet_ends_with_it(place: RayPlace) -> None:
    with sleeping(place, str(place.folder)) as keeper:
        asyncio.run(place.end())
        assert keeper.wait(timeout=5) is not None

    assert not place.folder.exists()


def test_a_keeper_ends_where_the_kernel_has_no_handles_of_processes(
    place: RayPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with sleeping(place, str(place.folder)) as keeper:
        asyncio.run(place.end())
        assert keeper.wait(timeout=5) is not None


def test_a_process_that_has_the_number_of_a_keeper_is_left_alone(place: RayPlace) -> None:
    with sleeping(place) as other:
        asyncio.run(place.end())
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=0.3)

    assert not place.folder.exists()


def test_a_cluster_ends_also_when_a_step_before_it_fails(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise OSError("No space left on device")

    async def run() -> Fleet:
        fleet = Fleet(project.load(X_ALONE))
        monkeypatch.setattr(fleet.client.http, "aclose", fail)
        with pytest.raises(OSError, match="No space left"):
            async with fleet:
                fleet.ray_folder.mkdir()
        return fleet

    assert not asyncio.run(run()).ray_folder.exists()


@pytest.mark.usefixtures("ray_of_its_own")
def test_a_cluster_that_another_server_does_not_finish_is_told_as_such(
    place: RayPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_place, "LOCK_LIMIT_S", 0.0)
    place.notice_import({})
    with (place.folder / "lock").open("wb") as file:
        lock(file)
        with pytest.raises(ConfigError, match="another server did not start"):
            importlib.import_module("ray")
    asyncio.run(place.leave())


@pytest.mark.usefixtures("ray_of_its_own")
def test_a_server_that_waits_for_an_import_is_not_told_that_it_failed(
    place: RayPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    monkeypatch.setattr(sys, "begun", begun, raising=False)
    program = "import sys, time; sys.begun.set(); time.sleep(0.3); 1 / 0"
    (tmp_path / "ray" / "__init__.py").write_text(program)

    async def run() -> None:
        other = asyncio.create_task(asyncio.to_thread(importlib.import_module, "ray"))
        await asyncio.to_thread(begun.wait)
        await place.connect(None)
        with pytest.raises(ZeroDivisionError):
            await other

    asyncio.run(run())


def test_ray_that_is_blocked_is_not_imported(
    place: RayPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    asyncio.run(place.connect(None))


def test_a_fleet_whose_stopping_is_cancelled_leaves_no_socket_open(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def hang(*_: object) -> None:
        began.set()
        await asyncio.Event().wait()

    async def run() -> int:
        monkeypatch.setattr(fleet_module, "stop_server", hang)
        fleet = Fleet(project.load(X_ALONE))
        await fleet.__aenter__()
        sock = listen("127.0.0.1", 0)
        fleet._listening.append(sock)  # as of a server that others reach
        stopping = asyncio.create_task(fleet.__aexit__(None, None, None))
        await began.wait()
        stopping.cancel()
        await asyncio.wait({stopping})
        return sock.fileno()

    assert asyncio.run(run()) == -1
