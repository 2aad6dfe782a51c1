"""Start and end processes so that none is left behind.

A process runs under a minder, which is this same program. The minder becomes the parent of
processes that its command leaves behind. It ends all of them when the command ends, when it gets a
signal to end, or when its own parent process is gone. Inside containers, which may have no Python,
only Slurm cleans up after its steps.
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

from palestra.system import become_subreaper, die_with_parent, how_ended, start

GRACE_S = 8.0
"""The time between the signal that asks a process to end and SIGKILL."""
MIND, MIND_STEP, MIND_SERVICE = "--mind", "--mind-step", "--mind-service"


def minded(argv: Sequence[str], workdir: str | None) -> list[str]:
    """Return the command that runs `argv` under a minder."""
    return [sys.executable, str(Path(sys.argv[0]).absolute()), MIND, workdir or "", *argv]


def step_minder(python: str, *, service: bool) -> list[str]:
    """Return the words that run a Slurm step's command under a minder, so that it ends with its
    daemon.
    """
    return [python, str(Path(sys.argv[0]).absolute()), MIND_SERVICE if service else MIND_STEP, ""]


def how_it_ended(code: int) -> str:
    """Return an exit code in words."""
    if code < 0:
        return f"was ended by {how_ended(code)}"
    # What a shell or a minder says of a command that the kernel killed.
    killed = " (SIGKILL: out of memory?)" if code == 128 + signal.SIGKILL else ""
    return f"exited with {code}{killed}"


def end(process: subprocess.Popen[bytes], grace_s: float = GRACE_S) -> None:
    """Send SIGTERM to the process, and SIGKILL to its whole group after it ends or after `grace_s`."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def open_log(folder: Path, names: Iterator[str]) -> tuple[IO[bytes], Path]:
    """Open the first of `names` that does not exist yet, so that no start overwrites another's log."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / name
        with contextlib.suppress(FileExistsError):
            return path.open("xb"), path
    raise AssertionError


def mind(arguments: Sequence[str], *, step: bool = False, hold_s: float = 0.0) -> int:
    """Run a command and all processes that it starts. Return its exit code.

    `arguments`: the working directory, then the command. SIGTERM and SIGINT are passed on as
    SIGTERM to the command's process group. After `GRACE_S`, what is left is killed. `step`: the
    command is a Slurm step. Slurm may have sent SIGTERM to the command too (with control groups it
    signals only the minder, otherwise all processes), so a command treats a second SIGTERM within a
    second as the first. `hold_s`: how long to delay the signal, for a service that the main step
    still uses while it ends.
    """
    workdir, *argv = arguments
    supervisor = os.getppid()
    if not become_subreaper():
        _log_line(
            "this system has no subreapers, so processes that detach themselves may be left running"
        )
    if not step:  # there it may be a thread that starts us, and ends
        die_with_parent(signal.SIGTERM)
    signals_received: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        signals_received.append(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
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
        _log_line(f"cannot start {argv[0]}: {error}")
        return 127
    try:
        code = _until_ended(child, signals_received, supervisor, hold_s)
    finally:
        _end_descendants()
    return code if code >= 0 else 128 - code


def _log_line(text: str) -> None:
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
    """Wait until all processes of a signalled group have ended: a shell may end before its
    children.
    """
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
    """Kill all processes below this one. Orphans of the command have become its children."""
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
    """Return the ids of all processes below `pid`, in all generations."""
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
