"""A full disk: the run stops with one clear error, and goes on when there is room again.

In two forms: a small tmpfs, which needs the right to mount, and a limit on the size of a file,
which needs none.
"""

import contextlib
import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_upstream import FakeUpstream, serving, steady
from faults_world import Done, World, tasks

from forked_commands import ForkedCommands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROLLOUTS = 300
PAGE = 4096


@dataclass
class Full:
    """A run that writes into `folder`, which can hold so much."""

    world: World
    folder: Path
    run: Callable[..., Done]
    make_room: Callable[[], Any]

    def rows(self) -> list[Any]:
        """The rows recorded so far, every one of which must be whole."""
        path = self.folder / "run.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()]

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, commands: ForkedCommands | None
) -> Iterator[World]:
    """A world in which a run leaves about 60 KB of inputs and 150 KB of rows."""
    folder = tmp_path_factory.mktemp("disk") / "project"
    world = World.make(folder, steadily=True, commands=commands)
    world.write_rows("tasks.jsonl", tasks(ROLLOUTS))
    with serving(FakeUpstream(steady())) as world.base_url:
        yield world


@pytest.fixture(scope="module")
def sizes(world: World) -> dict[str, int]:
    """How large the files of a whole run are."""
    done = world.run(*world.steady())
    assert done.code == 0, done.said
    return {name: len(data) for name, data in world.outputs().items()}


@contextlib.contextmanager
def mounted(world: World, folder: Path, size: int) -> Iterator[Full]:
    """A file system in memory of `size` bytes."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a file system is not allowed here")

    def run(*arguments: str) -> Done:
        return world.run(*world.steady(*arguments, output=str(folder / "run.jsonl")))

    def make_room() -> None:
        subprocess.run(["mount", "-o", "remount,size=8m", str(folder)], check=True)

    try:
        yield Full(world, folder, run, make_room)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def limited(world: World, folder: Path, size: int) -> Iterator[Full]:
    """A folder in which no file may become larger than `size` bytes."""
    folder.mkdir()
    limits: list[str] = [f"--fsize={size}"]

    def run(*arguments: str) -> Done:
        output = str(folder / "run.jsonl")
        return world.run(*world.steady(*arguments, output=output), limits=limits)

    yield Full(world, folder, run, limits.clear)


def pages(size: int) -> int:
    return math.ceil(size / PAGE) * PAGE


def check_stopped_and_resumed(full: Full, reason: str) -> None:
    done = full.run()
    error = done.one_error()
    recorded = len(full.rows())

    assert done.code == 1
    assert f"run.jsonl: {reason} after" in error
    assert "hint: free disk space, then run again" in error
    assert 0 < recorded < ROLLOUTS
    assert f"= scored {recorded} + failed 0 + not run {ROLLOUTS - recorded}" in done.err
    full.make_room()
    again = full.run("--resume")
    assert again.code == 0, again.said
    assert f"resuming: {recorded} of {ROLLOUTS} rollouts have ended already" in again.err
    keys = [row["_ng_task_index"] for row in full.rows()]
    assert sorted(keys) == list(range(ROLLOUTS))


def test_a_full_disk_stops_the_run_which_goes_on_when_there_is_room(
    world: World, sizes: dict[str, int], tmp_path: Path
) -> None:
    room = pages(sizes["run_materialized_inputs.jsonl"]) + sizes["run.jsonl"] // 2
    with mounted(world, tmp_path / "small", room) as full:
        check_stopped_and_resumed(full, "No space left on device")


def test_a_file_that_may_not_grow_stops_the_run_as_well(
    world: World, sizes: dict[str, int], tmp_path: Path
) -> None:
    with limited(world, tmp_path / "limited", sizes["run.jsonl"] * 2 // 3) as full:
        check_stopped_and_resumed(full, "File too large")


@pytest.mark.parametrize("kind", [mounted, limited])
def test_a_disk_too_small_for_the_inputs_is_left_as_it_was(
    world: World, sizes: dict[str, int], tmp_path: Path, kind: Any
) -> None:
    room = pages(sizes["run_materialized_inputs.jsonl"]) // 2
    with kind(world, tmp_path / "tiny", room // PAGE * PAGE) as full:
        done = full.run()

        assert str(full.folder) in done.one_error()
        assert done.code in {1, 2}
        assert full.names() == []


def test_a_disk_without_room_for_the_manifest_is_left_as_it_was(
    world: World, sizes: dict[str, int], tmp_path: Path
) -> None:
    with mounted(world, tmp_path / "exact", pages(sizes["run_materialized_inputs.jsonl"])) as full:
        done = full.run()

        assert "run_manifest.json" in done.one_error()
        assert "No space left on device" in done.one_error()
        assert full.names() == []
        full.make_room()
        assert full.run().code == 0


def test_a_disk_that_is_full_at_the_very_end_loses_nothing(
    world: World, sizes: dict[str, int], tmp_path: Path
) -> None:
    held = ("run.jsonl", "run_materialized_inputs.jsonl", "run_manifest.json")
    with mounted(world, tmp_path / "end", sum(pages(sizes[name]) for name in held)) as full:
        done = full.run()

        assert done.code == 1
        assert "No space left on device" in done.one_error()
        assert len(full.rows()) == ROLLOUTS
        full.make_room()
        assert full.run("--resume").code == 0
