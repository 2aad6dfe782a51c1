"""Putting merged files in place: all or nothing, never over something else by accident."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sharded_runs import contents, run_of, scored_row, write_run, write_shards

from palestra.errors import InputDataError
from palestra.rollouts import Journal, MergeFailed, merge, plan_merge
from palestra.schema import RunPaths

MIXED = ("scored", "retried", "failed", "truncated")
SCRIPT = Path(__file__).with_name("killed_merge.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Has three shards in `shards`; `all` is for the merged files."""
    write_shards(tmp_path / "shards", run_of(tasks=6, repeats=2, endings=MIXED), 3)
    return tmp_path


def out(folder: Path) -> Path:
    return folder / "all" / "run.jsonl"


def merged(folder: Path, *, overwrite: bool = False) -> None:
    merge(out(folder), [folder / "shards"], overwrite=overwrite)


def wanted(folder: Path) -> dict[str, bytes]:
    """What an undisturbed merge writes."""
    merge(folder / "wanted" / "run.jsonl", [folder / "shards"])
    return contents(folder / "wanted")


def with_another_run(folder: Path) -> dict[str, bytes]:
    """Another run's files where the merged ones go."""
    write_run(out(folder), run_of(tasks=2, repeats=1, endings=("scored", "failed")))
    RunPaths(out(folder)).aggregate_metrics.write_text("[]")
    return contents(folder / "all")


def times(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in path.iterdir()}


def test_merging_again_touches_nothing(folder: Path) -> None:
    merged(folder)
    before = times(folder / "all")
    with plan_merge(out(folder), [folder / "shards"]) as plan:
        notices = plan.write()

    assert notices == (f"{out(folder)} exists already with the same content",)
    assert times(folder / "all") == before


def test_another_runs_files_are_left_alone(folder: Path) -> None:
    before = with_another_run(folder)

    with pytest.raises(InputDataError, match=r"run\.jsonl exists already and has other content"):
        merged(folder)
    assert contents(folder / "all") == before


@pytest.mark.parametrize("name", ["run_failures.jsonl", "run_manifest.json"])
def test_a_single_file_of_another_run_is_left_alone(folder: Path, name: str) -> None:
    (folder / "all").mkdir()
    (folder / "all" / name).write_text("other")

    with pytest.raises(InputDataError, match=f"{name} exists already"):
        merged(folder)
    assert contents(folder / "all") == {name: b"other"}


def test_overwriting_keeps_what_was_there(folder: Path) -> None:
    before = with_another_run(folder)
    merged(folder, overwrite=True)
    now = contents(folder / "all")

    assert {name: data for name, data in now.items() if not name.endswith(".bak")} == wanted(folder)
    assert {name: now[f"{name}.bak"] for name in before} == before


def test_failures_of_another_run_do_not_stay_beside_a_run_without(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards", run_of(tasks=2, repeats=1), 2)
    with_another_run(tmp_path)
    merged(tmp_path, overwrite=True)

    assert "run_failures.jsonl" not in contents(tmp_path / "all")
    assert "run_failures.jsonl.bak" in contents(tmp_path / "all")


def test_a_file_that_went_missing_is_made_again(folder: Path) -> None:
    merged(folder)
    RunPaths(out(folder)).manifest.unlink()
    merged(folder)

    assert contents(folder / "all") == wanted(folder)


def test_a_shard_that_changes_meanwhile_stops_the_merge(folder: Path) -> None:
    with plan_merge(out(folder), [folder / "shards"]) as plan:
        with (folder / "shards" / "shard1.jsonl").open("ab") as shard:
            shard.write(b"{")

        with pytest.raises(
            InputDataError, match=r"shard1\.jsonl changed while it was being merged"
        ):
            plan.write()
    assert not (folder / "all").exists()


def test_a_shard_that_shrinks_meanwhile_stops_the_merge(folder: Path) -> None:
    with plan_merge(out(folder), [folder / "shards"]) as plan:
        os.truncate(folder / "shards" / "shard1.jsonl", 10)

        with pytest.raises(
            InputDataError, match=r"shard1\.jsonl changed while it was being merged"
        ):
            plan.write()
    assert not (folder / "all").exists()


def test_an_output_that_a_collection_writes_is_left_alone(folder: Path) -> None:
    before = with_another_run(folder)

    with (
        Journal(RunPaths(out(folder))),
        pytest.raises(InputDataError, match="is being written by another collection"),
    ):
        merged(folder, overwrite=True)
    assert contents(folder / "all") == before


@contextmanager
def small_files() -> Iterator[None]:
    """A disk that takes no file of more than two kilobytes.

    For the shortest time: the test program's own output may be a file, too.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_nothing_behind(folder: Path) -> None:
    with small_files(), pytest.raises(MergeFailed, match="File too large") as caught:
        merged(folder)

    assert caught.value.exit_code == 1
    assert not (folder / "all").exists()


def test_a_folder_that_may_not_be_written_says_so(folder: Path) -> None:
    (folder / "all").write_text("no folder")

    with pytest.raises(MergeFailed, match="cannot write"):
        merged(folder)


def test_a_second_merge_into_the_same_output_is_refused(folder: Path) -> None:
    (folder / "all").mkdir()
    beside = folder / "all" / "run.jsonl.merging"
    with beside.open("ab") as first:
        fcntl.flock(first, fcntl.LOCK_EX)

        with pytest.raises(InputDataError, match=r"another merge is writing .*run\.jsonl"):
            merged(folder)
        assert contents(folder / "all") == {beside.name: b""}
    merged(folder)

    assert contents(folder / "all") == wanted(folder)


@pytest.mark.slow
def test_a_lock_that_its_last_holder_has_renamed_is_taken_anew(folder: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from palestra.rollouts import plan_merge

output, shards, renamed = map(Path, sys.argv[1:])

def rename_once(event, arguments):
    if event == "fcntl.flock" and not renamed.exists():
        os.rename(f"{output}.merging", renamed)

with plan_merge(output, [shards]) as plan:
    sys.addaudithook(rename_once)
    plan.write()
"""
    (folder / "other").mkdir()
    renamed = folder / "other" / "run.jsonl"
    command = [sys.executable, "-c", script, out(folder), folder / "shards", renamed]
    subprocess.run(command, check=True, timeout=50)

    assert contents(folder / "all") == wanted(folder)
    assert renamed.read_bytes() == b""


def kill_points(folder: Path, *options: str) -> Iterator[int]:
    """Merges in `folder`, killed at one point after another, until one lives."""
    for kill_at in range(1, 200):
        done = subprocess.run(
            [sys.executable, SCRIPT, out(folder), folder / "shards", str(kill_at), *options],
            capture_output=True,
            timeout=50,
            check=False,
        )
        if done.stdout == b"it lived":
            return
        assert done.returncode == -signal.SIGKILL, done.stderr
        yield kill_at
    raise AssertionError("it was killed every time")


def clear(path: Path) -> None:
    for file in path.glob("*"):
        file.unlink()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_a_kill_anywhere_the_same_command_completes_the_merge(folder: Path) -> None:
    complete = wanted(folder)
    points = 0
    for _ in kill_points(folder):
        points += 1
        left = contents(folder / "all") if (folder / "all").exists() else {}
        # The output says that all is there.
        assert "run.jsonl" not in left or complete.items() <= left.items()
        merged(folder)
        assert contents(folder / "all") == complete
        clear(folder / "all")
    assert points > 15


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_a_kill_anywhere_nothing_that_was_overwritten_is_lost(folder: Path) -> None:
    complete, points = wanted(folder), 0
    before = with_another_run(folder)
    for _ in kill_points(folder, "--overwrite"):
        points += 1
        left = contents(folder / "all")
        # An output is never beside files of another one.
        if left.get("run.jsonl") == before["run.jsonl"]:
            assert {n: before[n] for n in complete}.items() <= left.items()
        elif "run.jsonl" in left:
            assert complete.items() <= left.items()
        merged(folder, overwrite=True)
        now = contents(folder / "all")
        assert {n: d for n, d in now.items() if not n.endswith(".bak")} == complete
        assert {name: now[f"{name}.bak"] for name in before} == before
        clear(folder / "all")
        with_another_run(folder)
    assert points > 20


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_of_merges_that_start_at_once_at_least_one_succeeds(tmp_path: Path) -> None:
    run = run_of(tasks=300, repeats=4)
    run.scored = [scored_row(n // 4, n % 4, text="x" * 5000) for n in range(1200)]
    write_shards(tmp_path / "shards", run, 8)
    command = [sys.executable, SCRIPT, out(tmp_path), tmp_path / "shards", "0"]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    errors = [process.communicate(timeout=60)[1].decode() for process in running]

    assert [process.returncode for process in running].count(0) >= 1
    assert all("another merge is writing" in text for text in errors if text)
    assert contents(tmp_path / "all") == wanted(tmp_path)
