"""Files that are whole or absent, and locks on them."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from palestra.system import (
    Process,
    born_at,
    create_whole,
    file_and_line,
    lock,
    open_locked,
    replacing,
    set_aside,
    write_whole,
)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_when_the_body_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"old")

    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"

    assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["rows.jsonl"]


def test_a_body_that_fails_leaves_what_was_there_and_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"old")

    with contextlib.suppress(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError

    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["rows.jsonl"]


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    script = (
        "import os, sys; from pathlib import Path; from palestra.system import replacing\n"
        "with replacing(Path(sys.argv[1])) as file:\n    os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, path], check=False)
    other = tmp_path / "rows.jsonl.tmp"  # not ours to remove
    other.touch()
    assert len(names_in(tmp_path)) == 2

    write_whole(path, b"new")

    assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["rows.jsonl", "rows.jsonl.tmp"]


def test_a_file_may_be_for_its_owner_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "key", b"secret", mode=0o600)

    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_of_several_writers_none_mixes_with_another(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    seen: list[bytes] = []

    def write(letter: bytes) -> None:
        for _ in range(20):
            with replacing(path) as file:
                for _ in range(50):
                    file.write(letter)
                    file.flush()
            seen.append(path.read_bytes())

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 60
    assert set(seen) <= {b"a" * 50, b"b" * 50, b"c" * 50}
    assert names_in(tmp_path) == ["rows.jsonl"]


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_whole(path, b"0" * 100_000)
    script = (
        "import sys; from pathlib import Path; from palestra.system import write_whole\n"
        "print(flush=True)\n"
        "for number in range(10**9): write_whole(Path(sys.argv[1]), b'%d' % (number % 10) * 100_000)"
    )
    for attempt in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", script, path], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            threading.Event().wait(0.003 * attempt)
            writer.kill()
        content = path.read_bytes()
        assert len(content) == 100_000
        assert len(set(content)) == 1


def test_of_several_that_create_a_file_one_does(tmp_path: Path) -> None:
    path = tmp_path / "lease.1"
    made: list[bytes] = []

    def create(name: bytes) -> None:
        try:
            create_whole(path, name)
        except FileExistsError:
            return
        made.append(name)

    threads = [threading.Thread(target=create, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made == [path.read_bytes()]
    assert names_in(tmp_path) == ["lease.1"]


def test_what_exists_is_set_aside_in_order(tmp_path: Path) -> None:
    there, absent = tmp_path / "a", tmp_path / "b"
    there.write_bytes(b"1")

    assert set_aside([absent, there], ".bak") == [there]
    assert names_in(tmp_path) == ["a.bak"]


def test_a_file_is_open_to_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.preparing"

    with open_locked(path), pytest.raises(BlockingIOError):
        open_locked(path)

    open_locked(path).close()


def test_a_file_that_its_holder_renames_before_it_is_free_is_left_alone(tmp_path: Path) -> None:
    path, finished = tmp_path / "rows.jsonl.preparing", tmp_path / "rows.jsonl"
    first = open_locked(path)
    first.write(b"whole")

    def finish() -> None:
        path.replace(finished)
        first.close()

    timer = threading.Timer(0.2, finish)
    timer.start()
    with open_locked(path, wait_s=10) as second:
        second.write(b"new")
    timer.join()

    assert (finished.read_bytes(), path.read_bytes()) == (b"whole", b"new")


def test_readers_share_a_lock_that_a_writer_does_not_get(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch()
    with path.open("rb") as one, path.open("rb") as other, path.open("ab") as writer:
        assert lock(one, shared=True)
        assert lock(other, shared=True)
        with pytest.raises(BlockingIOError):
            lock(writer)


@pytest.mark.slow
def test_a_lock_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    holder = multiprocessing.get_context("spawn").Process(target=_hold, args=(path,))
    holder.start()
    while not (tmp_path / "held").exists():
        assert holder.is_alive()
        threading.Event().wait(0.01)
    with pytest.raises(BlockingIOError):
        open_locked(path)

    holder.kill()
    holder.join()

    open_locked(path).close()


def _hold(path: Path) -> None:
    with open_locked(path):
        (path.parent / "held").touch()
        signal.pause()


def test_a_process_runs_until_it_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process.of(child.pid)
        assert not process.is_gone
        assert process != Process.this()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert born_at(child.pid) == ""  # though its parent has not asked how it ended
    assert process.is_gone


def test_a_number_that_was_given_again_is_another_process() -> None:
    this = Process.this()
    assert replace(this, born="1").is_gone
    assert replace(this, boot="earlier").is_gone


def test_of_a_process_of_another_machine_nothing_is_known() -> None:
    assert not replace(Process.this(), host="elsewhere", born="1").is_gone


def test_a_file_system_without_locks_gives_the_file_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.EBADF, "as NFS has it of what is open for reading")

    monkeypatch.setattr(fcntl, "flock", flock)  # no such file system can be mounted in a test

    with open_locked(tmp_path / "rows.jsonl") as file:
        assert not lock(file)


def test_a_file_that_is_renamed_each_time_it_is_opened_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"

    def flock(file: IO[bytes], operation: int) -> None:
        path.unlink()

    monkeypatch.setattr(fcntl, "flock", flock)

    with pytest.raises(BlockingIOError):
        open_locked(path)


@pytest.mark.parametrize(("line", "text"), [(3, "app.py:3"), (None, "app.py")])
def test_a_line_of_a_file_is_written_as_a_user_types_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int | None, text: str
) -> None:
    monkeypatch.chdir(tmp_path)

    assert file_and_line(tmp_path / "app.py", line) == text
