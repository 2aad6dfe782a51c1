"""Preparing with several processes, and being killed while at it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from preparations import dataset, prepare, read_rows, row, write_rows

from palestra.errors import InputDataError

pytestmark = pytest.mark.slow

KILLED = """
import sys
from pathlib import Path
from preparations import dataset, prepare

folder = Path(sys.argv[1])
prepare(folder / "out", dataset(folder / "d.jsonl", num_repeats=60), part_bytes=20_000, processes=2)
"""


def test_several_processes_make_the_same_files_as_one(tmp_path: Path) -> None:
    rows = [row(f"w {n % 7}  x", level=n / 3, tag=str(n % 50)) for n in range(3000)]
    path = write_rows(tmp_path / "d.jsonl", rows)
    sliced = dataset(path, name="s", start_idx=11, end_idx=2500, num_repeats=2)
    held = (dataset(path), sliced)

    prepare(tmp_path / "one", *held, processes=0)
    prepare(tmp_path / "many", *held, processes=2, part_bytes=9_999)

    for name in ("train.jsonl", "train_metrics.json"):
        one, many = ((tmp_path / way / name).read_text() for way in ("one", "many"))
        assert one == many.replace(str(tmp_path / "many"), str(tmp_path / "one"))


def test_bad_lines_have_their_numbers_whatever_part_they_are_in(tmp_path: Path) -> None:
    lines = [row(), "", row()] * 400
    lines[700:703] = ["{", {"responses_create_params": {}}, "["]
    path = write_rows(tmp_path / "d.jsonl", lines)

    with pytest.raises(InputDataError) as caught:
        prepare(tmp_path, dataset(path), processes=2, part_bytes=512)

    assert "line 702: /responses_create_params/input: Field required" in caught.value.message
    assert "3 rows cannot be used" in caught.value.message


@pytest.mark.timeout(120)
def test_a_kill_leaves_no_half_file_and_no_process_and_the_next_one_starts_over(
    tmp_path: Path,
) -> None:
    write_rows(tmp_path / "d.jsonl", [row("x " * 500, n=n) for n in range(4000)])
    earlier = tmp_path / "out" / "train.jsonl"
    write_rows(earlier, [row("earlier")])
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )
    beside = earlier.with_name("train.jsonl.preparing")
    while not beside.exists() or beside.stat().st_blocks * 512 < 1_000_000:
        assert process.poll() is None, "it was done before it could be killed"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert [one["responses_create_params"]["input"] for one in read_rows(earlier)] == ["earlier"]
    assert not (tmp_path / "d_prepare.jsonl").exists()
    assert not (tmp_path / "d_metrics.json").exists()
    _wait_for_the_end_of(process.pid)

    prepare(tmp_path / "out", dataset(tmp_path / "d.jsonl"), part_bytes=100_000)

    assert len(read_rows(earlier)) == 4000
    assert not list(tmp_path.rglob("*.preparing"))


def _wait_for_the_end_of(session: int) -> None:
    """Until no process of that session is left."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("processes are left")
