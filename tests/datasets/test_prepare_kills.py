"""Preparing, and being killed while at it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from preparations import dataset, prepare, read_rows, row, write_rows

pytestmark = pytest.mark.slow

KILLED = """
import sys
from pathlib import Path
from preparations import dataset, prepare

folder = Path(sys.argv[1])
prepare(folder / "out", dataset(folder / "d.jsonl", num_repeats=60))
"""


@pytest.mark.timeout(120)
def test_a_kill_leaves_no_half_file_and_the_next_one_starts_over(
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

    prepare(tmp_path / "out", dataset(tmp_path / "d.jsonl"))

    assert len(read_rows(earlier)) == 4000
    assert not list(tmp_path.rglob("*.preparing"))
