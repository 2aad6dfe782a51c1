"""Files that one process at a time writes."""

from pathlib import Path
from typing import BinaryIO

import pytest

from palestra.datasets.locking import open_alone


def test_a_file_is_open_to_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.preparing"

    with open_alone(path), pytest.raises(BlockingIOError):
        open_alone(path)

    open_alone(path).close()


def test_a_file_that_took_its_name_before_the_lock_is_left_alone(tmp_path: Path) -> None:
    path, finished = tmp_path / "rows.jsonl.preparing", tmp_path / "rows.jsonl"
    path.write_bytes(b"whole")
    locked: list[BinaryIO] = []

    def lock(file: BinaryIO) -> None:
        if not locked:
            path.replace(finished)
        locked.append(file)

    with open_alone(path, lock=lock) as file:
        file.write(b"new")

    assert len(locked) == 2
    assert (finished.read_bytes(), path.read_bytes()) == (b"whole", b"new")
