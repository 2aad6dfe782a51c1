"""Other programs, within a time."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

from palestra.system import Finished, born_at, end_group, run, run_async, start

LEAVES_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(str(child.pid))
child.wait()
"""


class Call(Protocol):
    """`run`, blocking or awaited."""

    def __call__(self, argv: Sequence[str], /, *, timeout_s: float) -> Finished: ...


def python(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def run_awaited(argv: Sequence[str], *, timeout_s: float) -> Finished:
    return asyncio.run(run_async(argv, timeout_s=timeout_s))


def test_a_command_ends_with_its_code_output_and_errors() -> None:
    done = run(
        python("import sys; print(' here '); print('there', file=sys.stderr); sys.exit(3)"),
        timeout_s=20,
    )

    assert (done.code, done.text, done.complaint) == (3, "here", "there")


def test_awaited_it_takes_input_and_its_errors_are_in_the_output() -> None:
    program = "import sys; print(input(), flush=True); print('there', file=sys.stderr)"

    done = asyncio.run(run_async(python(program), timeout_s=20, data=b"here\n"))

    assert (done.code, done.text.splitlines(), done.errors) == (0, ["here", "there"], b"")


def test_the_signal_that_ended_it_is_its_code() -> None:
    done = run(python("import os; os.kill(os.getpid(), 9)"), timeout_s=20)

    assert done.code == -9


def test_a_command_has_the_folder_and_the_environment_it_is_given(tmp_path: Path) -> None:
    program = "import os; print(os.getcwd(), os.environ['NAME'])"

    done = run(python(program), timeout_s=20, cwd=tmp_path, env={"NAME": "value"})

    assert done.text.split() == [str(tmp_path), "value"]


@pytest.mark.slow
@pytest.mark.parametrize("call", [run, run_awaited])
def test_a_command_that_is_late_is_gone_with_all_it_has_started(call: Call, tmp_path: Path) -> None:
    began = time.monotonic()

    with pytest.raises(TimeoutError):
        call(python(LEAVES_A_CHILD, tmp_path / "pid"), timeout_s=2)

    assert time.monotonic() - began < 20
    until_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("call", [run, run_awaited])
def test_a_command_that_is_not_there_cannot_be_started(call: Call) -> None:
    with pytest.raises(FileNotFoundError):
        call(["there-is-no-such-command"], timeout_s=5)


def test_a_started_process_leads_a_group_that_ends_as_one(tmp_path: Path) -> None:
    process = start(python(LEAVES_A_CHILD, tmp_path / "pid"), stdout=subprocess.DEVNULL)
    try:
        assert os.getpgid(process.pid) == process.pid
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        end_group(process.pid)

    assert process.wait(10) == -9
    until_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("call", [run, run_awaited])
def test_a_command_has_ended_though_what_it_left_keeps_its_output(call: Call) -> None:
    began = time.monotonic()

    done = call(["sh", "-c", "setsid sleep 20 & echo here"], timeout_s=15)

    assert (done.code, done.text) == (0, "here")
    assert time.monotonic() - began < 10


def until_ended(pid: int) -> None:
    deadline = time.monotonic() + 10
    while born_at(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.01)


def test_the_group_of_a_process_that_has_ended_is_no_error() -> None:
    process = start(python(""))
    process.wait(20)

    end_group(process.pid)
