"""Run other programs to their end within a time limit, or start them in a group that ends together.

Each program has its own session: Ctrl-C reaches this process only, which then ends the programs in
order. This module uses the standard library only and supports Python 3.8, because a cluster's
supervisor includes a copy of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio.subprocess

END_S: Final = 10.0
"""The seconds to wait for a killed process to end. A pending disk access may delay it."""


@dataclass(frozen=True)
class Finished:
    """How a command ended. A negative `code` is the negative number of the signal that ended it."""

    code: int
    output: bytes
    errors: bytes
    """What the command wrote to standard error. Empty when that is part of `output`."""

    @property
    def text(self) -> str:
        """The output as text, without surrounding whitespace."""
        return self.output.decode("utf-8", "replace").strip()

    @property
    def complaint(self) -> str:
        """The standard error as text, without surrounding whitespace."""
        return self.errors.decode("utf-8", "replace").strip()


def run(
    argv: Sequence[str],
    *,
    timeout_s: float | None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    data: bytes = b"",
    pass_fds: Collection[int] = (),
    inherits_output: bool = False,
) -> Finished:
    """Run a command to its end. `data`: its input.

    `timeout_s`: None only for a command that ends by itself, such as one with deadlines of its own.
    `env`: the whole environment of the command; None: this process's environment.
    `inherits_output`: the command prints to this process's output. Raises OSError: the command
    cannot be started. Raises TimeoutError: the command does not end in time; its whole process
    group has then been killed.
    """
    with contextlib.ExitStack() as files:
        # Not pipes, which whatever the command leaves behind would keep open.
        stdin_file, output, errors = (
            files.enter_context(tempfile.TemporaryFile()) for _ in range(3)
        )
        stdin_file.write(data)
        stdin_file.seek(0)
        process = start(
            argv,
            stdin=stdin_file,
            stdout=None if inherits_output else output,
            stderr=None if inherits_output else errors,
            cwd=cwd,
            env=env,
            pass_fds=pass_fds,
        )
        try:
            code = process.wait(timeout_s)
        except BaseException as error:
            end_group(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            if isinstance(error, subprocess.TimeoutExpired):
                raise _too_long(argv, timeout_s or 0.0) from None
            raise
        return Finished(code, _content(output), _content(errors))


async def run_async(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    data: bytes = b"",
    inherits_output: bool = False,
    separate_errors: bool = False,
) -> Finished:
    """Do the same as `run` without blocking the event loop. `data`: the command's input. Standard
    error is part of the output unless `separate_errors` is True.
    """
    import asyncio

    with contextlib.ExitStack() as files:
        stdin_file, output, errors = (
            files.enter_context(tempfile.TemporaryFile()) for _ in range(3)
        )
        stdin_file.write(data)
        stdin_file.seek(0)
        errors_file = errors if separate_errors else subprocess.STDOUT
        process = await start_async(
            argv,
            stdin=stdin_file,
            stdout=None if inherits_output else output,
            stderr=None if inherits_output else errors_file,
            cwd=cwd,
        )
        try:
            code = await asyncio.wait_for(process.wait(), timeout_s)
        except asyncio.TimeoutError:  # noqa: UP041  # its own class before Python 3.11
            raise _too_long(argv, timeout_s) from None
        finally:
            if process.returncode is None:
                end_group(process.pid)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(process.wait(), END_S)
        return Finished(code, _content(output), _content(errors))


async def start_async(
    argv: Sequence[str],
    *,
    stdin: IO[bytes] | int | None = None,
    stdout: IO[bytes] | int | None = None,
    stderr: IO[bytes] | int | None = None,
    cwd: Path | None = None,
    pass_fds: Collection[int] = (),
    longest_line: int = 1 << 16,
) -> asyncio.subprocess.Process:
    """Do the same as `start`, for an event loop. `longest_line`: the maximum length in bytes of a
    line that its pipes return whole.
    """
    import asyncio

    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
        limit=longest_line,
    )


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def start(
    argv: Sequence[str],
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | int | None = None,
    stderr: IO[bytes] | int | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Collection[int] = (),
    own_session: bool = True,
    in_child: Callable[[], object] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command in its own session. It gets no input when `stdin` is None.

    `own_session`: False keeps the command in this process's group, so that it receives the group's
    signals. `in_child`: called in the new process before the command runs; do not use it in a
    process with threads. Raises OSError when the command cannot be started.
    """
    return subprocess.Popen(  # noqa: S603  # a list of words, no shell; the caller's
        list(argv),
        stdin=stdin or subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=None if env is None else dict(env),
        pass_fds=tuple(pass_fds),
        start_new_session=own_session,
        preexec_fn=in_child,  # noqa: PLW1509  # the caller knows of its threads
    )


def end_group(pid: int) -> None:
    """Kill the process `pid`, which leads a group, and all processes of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _too_long(argv: Sequence[str], timeout_s: float) -> TimeoutError:
    return TimeoutError(f"{argv[0]} did not end within {timeout_s:g} s")
