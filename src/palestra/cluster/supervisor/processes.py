"""Starting, minding and ending processes, so that none is left behind.

A process runs under a minder: this same program, which becomes the parent of whatever its command
leaves, and ends all of it when the command ends, when it is told to, and when whoever started it is
gone, however that went. Inside containers, which may have no Python, Slurm alone minds its steps.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from palestra.system import become_subreaper, die_with_parent, signal_name, start

GRACE_S = 8.0
"""What a process gets between being asked to end and being made to."""
MIND, MIND_STEP, MIND_SERVICE = "--mind", "--mind-step", "--mind-service"


def minded(argv: Sequence[str], workdir: str | None) -> list[str]:
    """The command that runs `argv` under a minder."""
    return [sys.executable, str(Path(sys.argv[0]).absolute()), MIND, workdir or "", *argv]


def step_minder(python: str, *, service: bool) -> list[str]:
    """What stands before a command in a step of Slurm's, so that it ends with its daemon."""
    return [python, str(Path(sys.argv[0]).absolute()), MIND_SERVICE if service else MIND_STEP, ""]


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"was ended by {signal_name(-code)}"
    # What a shell or a minder says of a command that the kernel killed.
    killed = " (SIGKILL: out of memory?)" if code == 128 + signal.SIGKILL else ""
    return f"exited with {code}{killed}"


def end(process: subprocess.Popen[bytes], grace_s: float = GRACE_S) -> None:
    """Ask the process to end, and make it after `grace_s`; its whole group with it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def open_log(folder: Path, names: Iterator[str]) -> tuple[IO[bytes], Path]:
    """The first of `names` that is not taken, so that no start writes over another's log."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / name
        with contextlib.suppress(FileExistsError):
            return path.open("xb"), path
    raise AssertionError


def mind(arguments: Sequence[str], *, step: bool = False, hold_s: float = 0.0) -> int:
    """Run a command (after its working directory) and everything it starts; its exit code.

    A signal to end is passed on to the command's process group, which gets `GRACE_S`; what is left
    then is killed. Whoever tracks the processes of a `step` may have told some of them already
    (Slurm tells only us where it tracks by control groups, and everybody where it does not), so a
    command takes a second SIGTERM within a second for the first one. `hold_s`: how long the signal
    is held back, for a service that the main step still talks to while it ends.
    """
    workdir, *argv = arguments
    supervisor = os.getppid()
    if not become_subreaper():
        _say("this system has no subreapers: what detaches itself may be left behind")
    if not step:  # there it may be a thread that starts us, and ends
        die_with_parent(signal.SIGTERM)
    signals_received: list[int] = []

    def tell(number: int, _frame: FrameType | None) -> None:
        signals_received.append(number)

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    if os.getppid() != supervisor:
        return 1  # it was gone before we would have been told
    try:
        child = start(
            argv,
            cwd=Path(workdir) if workdir else None,
            in_child=die_with_parent,  # we have no threads
        )
    except OSError as error:
        _say(f"cannot start {argv[0]}: {error}")
        return 127
    try:
        code = _until_ended(child, signals_received, supervisor, hold_s)
    finally:
        _end_descendants()
    return code if code >= 0 else 128 - code


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # into its component's log


def _until_ended(
    child: subprocess.Popen[bytes], signals_received: Sequence[int], parent: int, hold_s: float
) -> int:
    tell_at = kill_at = None
    while True:
        try:
            code = child.wait(0.1)
            break
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if tell_at is None and signals_received:
            tell_at = now + hold_s
        if kill_at is None and (os.getppid() != parent or (tell_at is not None and now >= tell_at)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            kill_at = now + GRACE_S - 1.0
        if kill_at is not None and now > kill_at:
            child.kill()
    if kill_at is not None:
        _wait_for_group(child.pid, kill_at)
    return code


def _wait_for_group(group: int, until: float) -> None:
    """Let the rest of a group that was told to end do so: a shell ends before what it runs."""
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)


def _end_descendants() -> None:
    """Kill whatever is below us: orphans of the command have become our children."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        still_there = _children(os.getpid())
        if not still_there:
            return
        for pid in still_there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    """Processes below one, all generations."""
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            stat_text = process.read_text()
            parent = int(stat_text[stat_text.rindex(")") + 2 :].split()[1])
            parents.setdefault(parent, []).append(int(process.parent.name))
    descendants: list[int] = []
    to_visit = [pid]
    while to_visit:
        below = parents.get(to_visit.pop(), [])
        descendants += below
        to_visit += below
    return descendants
