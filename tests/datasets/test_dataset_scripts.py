"""Prepare scripts end with all that they have started."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from palestra.datasets.scripts import Scripts

DEADLINE_S = 60

LEAVES_ONE = """
import os, subprocess, sys
line = os.open({line!r}, os.O_WRONLY)
os.write(line, b"x")
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[line])
os.close(line)
def prepare(seconds=0):
    import time; time.sleep(seconds); return "rows.jsonl"
"""
"""Its child has its output, and the line that the test looks at."""


class Line:
    """Tells whether a process that has it is there."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._end, select.POLLIN)

    def wait(self) -> None:
        """Until somebody has it. Raises when nobody takes it."""
        assert self._poll.poll(DEADLINE_S * 1000)
        assert os.read(self._end, 1) == b"x"

    def is_let_go(self) -> bool:
        """Whether nobody has it, in the end."""
        return [event for _, event in self._poll.poll(DEADLINE_S * 1000)] == [select.POLLHUP]

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path / "line")
    yield line
    line.close()


@pytest.fixture
def script(tmp_path: Path, line: Line) -> Path:
    path = tmp_path / "prepare.py"
    path.write_text(LEAVES_ONE.format(line=str(line.path)))
    return path


def test_what_a_script_leaves_behind_is_not_waited_for_and_ends(script: Path, line: Line) -> None:
    with Scripts() as scripts:
        done = scripts.run(script, {}, script.with_name("answer"), timeout_s=DEADLINE_S)

    assert done.exit_code == 0, done.printed
    line.wait()
    assert line.is_let_go()


def test_an_interruption_ends_the_scripts_that_run(script: Path, line: Line) -> None:
    answer = script.with_name("answer")

    interrupted = contextlib.suppress(KeyboardInterrupt)
    with interrupted, ThreadPoolExecutor(1) as threads, Scripts() as scripts:
        running = threads.submit(scripts.run, script, {"seconds": 600}, answer, timeout_s=600)
        line.wait()
        raise KeyboardInterrupt

    assert running.result().exit_code == -signal.SIGKILL
    assert line.is_let_go()


@pytest.mark.slow
def test_a_killed_command_leaves_no_script_behind(script: Path, line: Line) -> None:
    command = (
        "from pathlib import Path; from palestra.datasets.scripts import Scripts; "
        f"path = Path({str(script)!r}); "
        "Scripts().run(path, {'seconds': 600}, path.with_name('answer'), timeout_s=600)"
    )
    with subprocess.Popen([sys.executable, "-c", command]) as process:
        line.wait()
        process.kill()

    assert line.is_let_go()


def test_a_file_in_the_working_directory_hides_no_module_of_python(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('the file of an author')")
    (tmp_path / "beside.py").write_text("NAME = 'rows.jsonl'")
    script = tmp_path / "scripts" / "prepare.py"
    script.parent.mkdir()
    script.write_text("import beside, json\ndef prepare(): return beside.NAME\n")

    with contextlib.chdir(tmp_path), Scripts() as scripts:
        done = scripts.run(script, {}, tmp_path / "answer", timeout_s=DEADLINE_S)

    assert done.exit_code == 0, done.printed
    assert (tmp_path / "answer").read_text() == '"rows.jsonl"'
