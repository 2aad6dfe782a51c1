from pathlib import Path

import pytest

from palestra.training.memory import MIB, Memory, MemoryGuard, MemoryRoom, gone

SECOND = {
    "proc/self/cgroup": "0::/jobs/train\n",
    "sys/fs/cgroup/jobs/train/memory.max": f"{100 * MIB}\n",
    "sys/fs/cgroup/jobs/train/memory.current": f"{95 * MIB}\n",
    "sys/fs/cgroup/jobs/train/memory.stat": f"anon 5\ninactive_file {5 * MIB}\n",
    "sys/fs/cgroup/jobs/train/memory.events": "oom 3\noom_kill 2\n",
}
FIRST = {
    "proc/self/cgroup": "5:cpu:/\n4:memory:/train\n0::/\n",
    "sys/fs/cgroup/memory/train/memory.limit_in_bytes": f"{100 * MIB}\n",
    "sys/fs/cgroup/memory/train/memory.usage_in_bytes": f"{90 * MIB}\n",
    "sys/fs/cgroup/memory/train/memory.stat": "cache 0\n",
    "sys/fs/cgroup/memory/train/memory.oom_control": "oom_kill_disable 0\noom_kill 2\n",
}


def machine(root: Path, files: dict[str, str]) -> Memory:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Memory(root)


@pytest.mark.parametrize("files", [SECOND, FIRST], ids=["version 2", "version 1"])
def test_the_room_in_a_cgroup_is_found(tmp_path: Path, files: dict[str, str]) -> None:
    room = machine(tmp_path, files).room()

    assert room is not None
    # What is cached can be taken back at once.
    assert (room.left // MIB, room.limit // MIB) == (10, 100)


@pytest.mark.parametrize("files", [SECOND, FIRST], ids=["version 2", "version 1"])
def test_the_kernels_kills_are_counted(tmp_path: Path, files: dict[str, str]) -> None:
    counts = machine(tmp_path, files | {"proc/vmstat": "oom_kill 7\n"}).oom_kills()

    assert sorted(counts.values()) == [2, 7]


def test_without_any_figure_nothing_is_held_back(tmp_path: Path) -> None:
    guard = MemoryGuard(0.5, Memory(tmp_path), clock=lambda: 0.0)

    assert guard.low() == ""


def test_the_guard_looks_now_and_then(tmp_path: Path) -> None:
    class Told(Memory):  # type: ignore[misc]  # a fake
        rooms = [MemoryRoom(1, 100, "a test"), MemoryRoom(90, 100, "a test")]  # noqa: RUF012

        def room(self) -> MemoryRoom:
            return self.rooms.pop(0)

    now = [0.0]
    guard = MemoryGuard(0.1, Told(tmp_path), clock=lambda: now[0])

    assert guard.low()
    now[0] = 0.1
    assert guard.low(), "it has not looked again"
    now[0] = 1.0
    assert not guard.low()


def test_a_process_that_has_ended_is_gone_before_its_parent_asks(tmp_path: Path) -> None:
    for pid, state in ((7, "Z"), (8, "S")):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "stat").write_text(f"{pid} (a (b) c) {state} 1 1\n")

    assert [gone(pid, tmp_path) for pid in (7, 8, 9)] == [True, False, True]
