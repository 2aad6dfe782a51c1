"""What keeps a program within its limits, where the kernel or the program makes that hard."""

import os
import random
import time
from pathlib import Path

import pytest

from palestra.sandbox import Program, usable_processors
from palestra.sandbox.bubblewrap import IsolationMethod, Tools, command_line
from palestra.sandbox.keeping import folder
from palestra.sandbox.keeping.cgroups import OomKills, processors_allowed
from palestra.sandbox.keeping.meter import PAGE_BYTES, TICKS_PER_S, Meter
from palestra.sandbox.keeping.tree import Unreadable, kill_all

MIB = 1 << 20


def machine(root: Path, files: dict[str, str]) -> Path:
    """A file system with these files."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


# Processors

V2 = {
    "proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n",
    "proc/self/cgroup": "0::/pods/mine\n",
}
V1 = {
    "proc/self/mountinfo": "32 31 0:29 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    "proc/self/cgroup": "2:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n",
}


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        ({**V2, "sys/fs/cgroup/pods/mine/cpu.max": "150000 100000\n"}, 1.5),
        ({**V2, "sys/fs/cgroup/pods/mine/cpu.max": "max 100000\n"}, None),
        (
            {
                **V2,
                "sys/fs/cgroup/pods/mine/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/pods/cpu.max": "200000 100000\n",
            },
            2.0,
        ),
        # a container, which is told the group's path on the machine but has it as the top
        ({**V2, "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({}, None),
        ({"proc/self/mountinfo": "what is this\n", "proc/self/cgroup": "and this\n"}, None),
    ],
)
def test_the_quota_of_a_control_group_limits_the_processors(
    tmp_path: Path, files: dict[str, str], allowed: float | None
) -> None:
    assert processors_allowed(machine(tmp_path, files)) == allowed


def test_there_are_as_many_places_as_the_quota_fills(tmp_path: Path) -> None:
    bound = len(os.sched_getaffinity(0))
    half = machine(tmp_path, {**V2, "sys/fs/cgroup/cpu.max": "50000 100000\n"})

    assert usable_processors(half) == 1
    (half / "sys/fs/cgroup/cpu.max").write_text("100000000 100000\n")
    assert usable_processors(half) == bound


# Memory


@pytest.mark.parametrize(
    "counted",
    [
        "proc/vmstat",
        "sys/fs/cgroup/pods/mine/memory.events",
        "sys/fs/cgroup/pods/mine/memory.oom_control",
    ],
)
def test_what_the_kernel_kills_for_want_of_memory_is_counted(tmp_path: Path, counted: str) -> None:
    machine(tmp_path, {**V2, counted: "low 3\noom_kill 4\noom_kill_disable 0\n"})
    kills = OomKills(tmp_path)
    assert not kills.any()

    (tmp_path / counted).write_text("low 3\noom_kill 5\noom_kill_disable 0\n")

    assert kills.any()


def test_what_the_kernel_kills_in_other_groups_is_not_ours(tmp_path: Path) -> None:
    own = "sys/fs/cgroup/pods/mine/memory.events.local"
    machine(tmp_path, {**V2, own: "oom_kill 0\n", "proc/vmstat": "oom_kill 4\n"})
    kills = OomKills(tmp_path)

    machine(tmp_path, {"proc/vmstat": "oom_kill 5\n"})
    assert not kills.any()

    machine(tmp_path, {own: "oom_kill 1\n"})
    assert kills.any()


def process(root: Path, pid: int, *, parent: int = 1, ticks: int = 0, mib: int = 0) -> Path:
    """A process as /proc shows it, that holds so much memory by itself."""
    fields = [f"{pid} (a (b) c) S {parent}", *"0" * 9, str(ticks), *"0" * 7, "77 0"]
    folder = root / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(" ".join([*fields, str(mib * MIB // PAGE_BYTES), "0 0"]))
    status = f"SigIgn:\t0000000000001000\nVmRSS:\t{mib * 1024} kB\nRssAnon:\t{mib * 1024} kB\n"
    (folder / "status").write_text(f"{status}RssFile:\t99999 kB\n")
    (folder / "smaps_rollup").write_text(f"0-1 [rollup]\nRss: 9 kB\nPss: {mib * 512} kB\n")
    return folder


def meter(root: Path, limit_mib: int) -> Meter:
    return Meter(limit_mib * MIB, reaped_s=lambda: 0.0, proc=root)


def test_pages_that_processes_share_count_once(tmp_path: Path) -> None:
    process(tmp_path, 5, mib=100)

    assert meter(tmp_path, 200).look([5]).memory_bytes == 100 * MIB
    assert meter(tmp_path, 80).look([5]).memory_bytes == 50 * MIB


def test_a_process_whose_memory_map_cannot_be_read_is_measured_otherwise(tmp_path: Path) -> None:
    unreadable = process(tmp_path, 5, mib=100) / "smaps_rollup"
    unreadable.unlink()
    unreadable.mkdir()

    assert meter(tmp_path, 80).look([5]).memory_bytes == 100 * MIB


@pytest.mark.parametrize("names", [["stat"], ["smaps_rollup", "status"]])
def test_a_process_of_which_nothing_can_be_read_is_no_process_without_memory(
    tmp_path: Path, names: list[str]
) -> None:
    for name in names:
        unreadable = process(tmp_path, 5, mib=100) / name
    for name in names:
        unreadable = tmp_path / "5" / name
        unreadable.unlink()
        unreadable.mkdir()

    with pytest.raises(Unreadable):
        meter(tmp_path, 80).look([5])


def test_a_process_that_has_gone_uses_nothing(tmp_path: Path) -> None:
    process(tmp_path, 5, mib=100, ticks=3)

    assert meter(tmp_path, 1).look([5, 6]).cpu_s == 3 / TICKS_PER_S


# CPU time


def test_the_time_of_children_that_nobody_waits_for_is_kept(tmp_path: Path) -> None:
    parent = process(tmp_path, 5, ticks=10)
    ignoring = "SigIgn:\t0000000000010000\n"
    (parent / "status").write_text(ignoring)
    process(tmp_path, 6, parent=5, ticks=200)
    looking = meter(tmp_path, 80)
    looking.look([5, 6])

    process(tmp_path, 7, parent=5, ticks=100)

    assert looking.look([5, 7]).cpu_s == 310 / TICKS_PER_S
    assert looking.look([5]).cpu_s == 310 / TICKS_PER_S


def test_the_time_of_children_that_are_waited_for_counts_once(tmp_path: Path) -> None:
    process(tmp_path, 5, ticks=10)
    process(tmp_path, 6, parent=5, ticks=200)
    looking = meter(tmp_path, 80)
    looking.look([5, 6])

    process(tmp_path, 5, ticks=210)

    assert looking.look([5]).cpu_s == 210 / TICKS_PER_S


# The end


def test_killing_ends_when_there_is_always_another_process() -> None:
    beyond_any_pid = iter(range(1 << 29, 1 << 30))
    began = time.monotonic()

    ended = kill_all(os.getpid(), within_s=0.3, below=lambda _: [next(beyond_any_pid)])

    assert not ended
    assert time.monotonic() - began < 5


def test_a_folder_is_removed_however_deep_it_is(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    path = str(tmp_path / "work")
    folder.make(path, [("a/b", b"x")])
    top = here = os.open(path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 100, dir_fd=here)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.symlink(kept, "link", dir_fd=inner)
        os.fchmod(inner, 0o500)
        if here != top:
            os.close(here)
        here = inner
    os.close(here)
    os.close(top)

    folder.remove(path)

    assert list(tmp_path.iterdir()) == [kept]
    assert kept.read_text() == "as it was"


def test_the_users_of_programs_do_not_come_from_the_random_numbers_of_others() -> None:
    tools = Tools("bwrap", "setpriv", IsolationMethod.ROOT, "/opt/py/bin/python", ())

    def user() -> str:
        random.seed(1)
        line = command_line(tools, Program(("x",)), tmp_mib=1, seccomp=False)
        return line[line.index("--reuid") + 1]

    assert user() != user()
    random.seed(1)
    untouched = random.getstate()
    command_line(tools, Program(("x",)), tmp_mib=1, seccomp=False)
    assert random.getstate() == untouched
