"""The rows of a file that another interpreter imports, which may not end."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from palestra.errors import ServerDied
from palestra.fleet.environment_rows import FileRows, RowRequest, rows_by
from palestra.fleet.importing import starting_within

FILE = """
from palestra import environment
{body}


@environment(data=[{{"n": 1}}], prompt="{{n}}")
def verify(answer):
    return 1.0
"""
LINE = FILE[: FILE.index("{body}")].count("\n") + 1
HOLDS_LOCK = 'import re; re.match(r"(a+)+$", "a" * 40 + "b")'
STOPS = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
KEEPS_THREAD = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"


def rows(folder: Path, body: str, *, limit_s: float, beside_s: float = 60) -> FileRows:
    path = folder / "own.py"
    path.write_text(FILE.format(body=body))
    with starting_within(limit_s):
        return asyncio.run(rows_by(Path(sys.executable), RowRequest(path), beside_s=beside_s))


@pytest.mark.slow
def test_an_import_that_holds_the_lock_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ServerDied) as caught:
        rows(tmp_path, HOLDS_LOCK, limit_s=1)

    assert (caught.value.file, caught.value.line) == (str(tmp_path / "own.py"), LINE)


@pytest.mark.slow
@pytest.mark.timeout(40)
def test_an_interpreter_that_stands_still_is_ended(tmp_path: Path) -> None:
    with pytest.raises(ServerDied, match="did not end within 6 s"):
        rows(tmp_path, STOPS, limit_s=5, beside_s=1)


@pytest.mark.slow
def test_a_thread_that_holds_the_exit_costs_no_rows(tmp_path: Path) -> None:
    began = time.monotonic()

    made = rows(tmp_path, KEEPS_THREAD, limit_s=1)

    assert [row["n"] for row in made.rows] == [1]
    assert time.monotonic() - began < 40
