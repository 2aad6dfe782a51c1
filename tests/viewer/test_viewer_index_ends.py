"""Where the reading of a run ends: a torn line, a full memory, another viewer that writes."""

import gzip
import json
import os
import time
from contextlib import closing
from math import inf
from pathlib import Path

import pytest

from listed_runs import answered, write_run
from palestra.cli.viewing import view
from palestra.settings import ViewArgs
from palestra.viewer import Catalog, OpenRun, RunPlace, find_places
from palestra.viewer.index import open_index
from palestra.viewer.index.bounds import IndexBounds
from palestra.viewer.index.refreshing import Index

LONG_AGO = 1_700_000_000
SMALL = IndexBounds(free_share=1.0, memory_bytes=60_000)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "run-dir"))


def torn(folder: Path) -> Path:
    """A run of three rows of which the last has lost its end."""
    output = write_run(folder, [answered(task, 1.0) for task in range(3)], requested=3)
    output.write_bytes(output.read_bytes()[:-20])
    os.utime(output, (LONG_AGO, LONG_AGO))
    return output


def many(folder: Path, rows: int = 2_000) -> Path:
    return write_run(folder, [answered(task, 1.0) for task in range(rows)], requested=rows)


# A torn line


@pytest.mark.timeout(20)
def test_a_torn_line_ends_no_command_late_and_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = torn(tmp_path / "a")
    view(ViewArgs.model_validate({"paths": [str(output)], "as_json": True}))

    printed = capsys.readouterr()
    outcomes = [row["outcome"] for row in json.loads(printed.out)]
    assert outcomes == ["scored", "scored", "not ended"]
    assert "after the last line break" in printed.err


@pytest.mark.timeout(30)
def test_a_torn_run_keeps_no_other_run_waiting(tmp_path: Path) -> None:
    torn(tmp_path / "a")
    write_run(tmp_path / "b", [answered(0, 1.0)], requested=1)
    with Catalog(find_places([str(tmp_path)]), cache=tmp_path / "cache") as catalog:
        deadline = time.monotonic() + 15
        while None in [catalog.entry(place) for place in catalog.places]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        entries = [catalog.entry(place) for place in catalog.places]

    assert sorted(entry.scored for entry in entries if entry is not None) == [1, 2]


def test_a_follower_of_a_torn_run_has_nothing_to_wait_for(tmp_path: Path) -> None:
    output = torn(tmp_path / "a")
    with open_index([output]) as writer, open_index([output]) as follower:
        writer.refresh(inf)
        follower.refresh(inf)

        assert not follower.progress.is_writer
        assert not follower.progress.has_more
        assert len(follower.snapshot.rollouts) == 3


def test_the_end_of_a_torn_line_is_read_when_it_comes(tmp_path: Path) -> None:
    output = torn(tmp_path / "a")
    whole = answered(2, 0.5)
    with open_index([output]) as index:
        index.refresh(inf)
        begun = output.read_bytes().rpartition(b"\n")[0]
        output.write_bytes(begun + b"\n" + json.dumps(whole).encode() + b"\n")
        index.refresh(inf)

        assert len(index.snapshot.rollouts.select("outcome:scored")) == 3


# A full memory


def test_a_run_that_does_not_fit_is_not_called_complete(tmp_path: Path) -> None:
    output = many(tmp_path / "a")
    with closing(OpenRun(RunPlace.of([output]), None, None, bounds=SMALL)) as run:
        run.wait()

        assert run.progress.is_full
        assert run.progress.bytes_indexed < run.progress.bytes_total
        assert not run.is_complete
        assert any("are indexed" in text for text in run.notices)


def test_copies_of_a_packed_file_leave_room_for_its_rows(tmp_path: Path) -> None:
    output = many(tmp_path / "a", rows=100)
    output.with_suffix(".jsonl.gz").write_bytes(gzip.compress(output.read_bytes(), 1))
    output.unlink()
    bounds = IndexBounds(free_share=1.0, memory_bytes=120_000)
    with open_index([output], bounds=bounds) as index:
        index.refresh(inf)

        assert len(index.snapshot.rollouts.select("outcome:scored")) == 100


def test_who_follows_a_writer_that_left_the_cache_takes_it_over(tmp_path: Path) -> None:
    output = many(tmp_path / "a", rows=50)
    follower = open_index([output])
    with Index([output], follower._folder, bounds=IndexBounds(indexes_bytes=200)) as writer:
        writer.refresh(inf)
        follower.refresh(inf)

        assert writer.progress.in_memory
        assert follower.progress.is_writer
        assert len(follower.snapshot.rollouts) == 50
    follower.close()
