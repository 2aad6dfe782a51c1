"""Ctrl-C while a command still imports its modules."""

import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint

import pytest

from palestra.cli.entry import INTERRUPTED, ending_imports_on_interrupt, exits_on_interrupt

COMMANDS = {
    "palestra": ("palestra.cli.entry:main", "collect"),
    "gym": ("palestra.cli.gym:main", "list"),
    "ng_run": ("palestra.cli.ng:run", "+config_paths=[none.yaml]"),
    "ng_collect_rollouts": ("palestra.cli.ng:collect_rollouts", "+agent_name=none"),
}
PROGRAM = """
import sys

def say_begun(event, args):
    if event == "import" and args[0] in ("palestra.cli.main", "palestra.cli.console"):
        print(flush=True)

from {entry.module} import {entry.attr} as start
sys.addaudithook(say_begun)
start()
"""


def started(name: str) -> subprocess.Popen[str]:
    """Return the process of a console script, which has begun to import what it runs."""
    target, argument = COMMANDS[name]
    entry = EntryPoint(name, target, "console_scripts")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(entry=entry), argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.15, 0.3, 0.6])
@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupted_start_prints_no_traceback(name: str, delay_s: float) -> None:
    with started(name) as process:
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)

    # of itself: these command lines are wrong, and `gym list` has no action; or while it ended, when
    # Python had already taken its handlers of signals back
    has_ended_before = process.returncode in {1, 2, -signal.SIGINT}
    assert process.returncode == INTERRUPTED or has_ended_before
    assert "Traceback" not in error


def test_an_interrupted_command_exits_with_its_code() -> None:
    @exits_on_interrupt
    def command() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as exit_:
        command()

    assert exit_.value.code == INTERRUPTED


def test_python_handles_ctrl_c_again_after_the_imports() -> None:
    before = signal.getsignal(signal.SIGINT)

    with ending_imports_on_interrupt():
        during = signal.getsignal(signal.SIGINT)

    assert during != before
    assert signal.getsignal(signal.SIGINT) == before
