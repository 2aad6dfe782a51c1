"""The end of a fleet's own Ray cluster, without Ray."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from serving_world import X_ALONE, Project

from palestra.serving import Fleet
from palestra.serving.ray_clusters import RayPlace
from palestra.serving.ray_clusters.keeper import PID

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RayPlace:
    """With a folder, as once a cluster was made."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    place = RayPlace.of_fleet({})
    place.folder.mkdir()
    return place


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
