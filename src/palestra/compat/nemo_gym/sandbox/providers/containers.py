"""What the providers that run a container program have in common: commands in a running container,
their time limits, and the readiness probe.
"""

import asyncio
import contextlib
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from palestra.compat.nemo_gym.sandbox.providers.base import (
    RUNTIME_FAILED,
    SANDBOX_FAILED,
    TIMED_OUT,
    ProviderUnavailable,
    SandboxCreateError,
    SandboxCreateVerificationError,
    SandboxError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
    plain,
)
from palestra.system import Finished, run_async

CONTROL_S: Final = 60.0
"""Longest time for a request to the container program that runs nothing of the user's."""

COPY_S: Final = 600.0
LONGEST_S: Final = 30 * 86_400.0
"""The time limit of a command without one, in seconds."""

KILL_GRACE_S: Final = 15.0
"""Longest time to receive the output of a killed command, in seconds."""

MARK: Final = "PALESTRA_COMMAND"
"""The variable by which the processes of one command are found in the container."""

_BASH_OR_SH: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"'
_KILL: Final = """for folder in /proc/[0-9]*; do
  grep -qs "$1" "$folder/environ" && kill -KILL "${folder#/proc/}" 2>/dev/null
done; exit 0"""

Settings = TypeVar("Settings")


@dataclass
class ProbeConfig:
    """The settings of the readiness probe."""

    command: str = "true"
    """The shell command that succeeds in a ready sandbox."""

    timeout_s: float = 60.0
    """Longest time until the probe succeeds, unless the spec has `ready_timeout_s`."""

    interval_s: float = 0.5
    """Time between two attempts."""


@dataclass
class Container:
    """A container of a provider: its name, and the spec that it was created from."""

    name: str
    spec: SandboxSpec


class ContainerProvider(ABC):
    """A provider over a container program. Its sandboxes have unique names that it chooses."""

    name: str

    def __init__(self, program: str, probe: ProbeConfig) -> None:
        self._program = program
        self._probe_config = probe

    @abstractmethod
    def exec_argv(
        self,
        container: Container,
        words: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        user: str | int | None,
    ) -> list[str]:
        """Return the arguments that run `words` in the container."""

    @abstractmethod
    async def status(self, handle: SandboxHandle, /) -> SandboxStatus:
        """Return the state of the sandbox."""

    @abstractmethod
    async def close(self, handle: SandboxHandle, /) -> None:
        """Remove the sandbox. Closing a removed sandbox has no effect."""

    @property
    @abstractmethod
    def shell(self) -> str | None:
        """The shell of commands; None: bash where the container has it, else sh."""

    async def aclose(self) -> None:  # noqa: B027  # all that a container provider has to do
        """Do nothing: the provider itself holds nothing."""

    async def exec(
        self,
        handle: SandboxHandle,
        command: str | Sequence[str],
        /,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = 180,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command, or a program with its arguments, to its end.

        At the time limit, in seconds, all processes of the command are killed. None: no limit.
        """
        mark = uuid4().hex
        argv = self.exec_argv(
            handle.raw,
            self._words(command),
            cwd=cwd,
            env={**(env or {}), MARK: mark},
            user=user,
        )
        limit_s = LONGEST_S if timeout_s is None else timeout_s
        work = asyncio.ensure_future(
            run_async(argv, timeout_s=limit_s + KILL_GRACE_S, separate_errors=True)
        )
        try:
            finished = await asyncio.wait_for(asyncio.shield(work), limit_s)
        except TimeoutError:
            await self._kill(handle, mark)
            return await _timed_out(work, limit_s)
        except asyncio.CancelledError:
            await self._kill(handle, mark)
            work.cancel()
            raise
        return await self._result(handle, finished)

    async def _result(self, handle: SandboxHandle, finished: Finished) -> SandboxExecResult:
        """Return the result of a command, after a look at whether it ran at all."""
        stdout, stderr = (text.decode("utf-8", "replace") for text in _streams(finished))
        code = 128 - finished.code if finished.code < 0 else finished.code
        # The program's own failure has the same exit codes; only a lost sandbox is not running.
        suspicious = code >= RUNTIME_FAILED or stderr.startswith(("Error", "Cannot", "FATAL"))
        if code and suspicious and await self.status(handle) is not SandboxStatus.RUNNING:
            return SandboxExecResult(stdout, stderr, RUNTIME_FAILED, SANDBOX_FAILED)
        return SandboxExecResult(stdout, stderr, code)

    async def _kill(self, handle: SandboxHandle, mark: str) -> None:
        """Kill the processes of one command."""
        words = ["/bin/sh", "-c", _KILL, "sh", f"{MARK}={mark}"]
        argv = self.exec_argv(handle.raw, words, cwd="/", env={}, user=None)
        with contextlib.suppress(OSError):  # a sandbox that is gone has no processes
            await run_async(argv, timeout_s=CONTROL_S)

    def _words(self, command: str | Sequence[str]) -> list[str]:
        if not isinstance(command, str):
            return list(command)
        if self.shell is not None:
            return [self.shell, "-c", command]
        return ["/bin/sh", "-c", _BASH_OR_SH, "sh", command]

    async def _create(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run the command that creates a container. Raises SandboxCreateError."""
        try:
            finished = await run_async(argv, timeout_s=timeout_s, separate_errors=True)
        except OSError as error:
            raise SandboxCreateError(f"{self.name} did not create a sandbox: {error}") from error
        if finished.code:
            raise SandboxCreateError(
                f"{self.name} did not create a sandbox (exit code {finished.code}): "
                f"{finished.complaint or finished.text}"
            )
        return finished

    async def _wait_until_ready(self, handle: SandboxHandle, spec: SandboxSpec) -> None:
        """Run the probe until it succeeds. Raises SandboxCreateVerificationError: it does not in
        time.
        """
        probe = self._probe_config
        limit_s = spec.ready_timeout_s or probe.timeout_s
        deadline = time.monotonic() + limit_s
        complaint = ""
        while (left_s := deadline - time.monotonic()) > 0:
            result = await self.exec(handle, probe.command, timeout_s=left_s)
            if result.return_code == 0:
                return
            complaint = (result.stderr or "").strip()
            if await self.status(handle) is SandboxStatus.STOPPED:
                raise SandboxCreateVerificationError(
                    f"{self.name} sandbox {handle.sandbox_id} ended before it was ready: "
                    f"{complaint}"
                )
            await asyncio.sleep(probe.interval_s)
        raise SandboxCreateVerificationError(
            f"{self.name} sandbox {handle.sandbox_id} was not ready within {limit_s:g} s: "
            f"the probe `{probe.command}` did not succeed: {complaint}"
        )

    async def _control(
        self, *arguments: str, timeout_s: float = CONTROL_S, data: bytes = b""
    ) -> Finished:
        """Run the container program. Raises SandboxError: it cannot be started, or takes too long."""
        return await self._copy([self._program, *arguments], timeout_s=timeout_s, data=data)

    async def _copy(
        self, argv: Sequence[str], *, timeout_s: float = COPY_S, data: bytes = b""
    ) -> Finished:
        try:
            return await run_async(argv, timeout_s=timeout_s, data=data, separate_errors=True)
        except OSError as error:
            raise SandboxError(f"{self.name}: {error}") from error


async def _timed_out(work: "asyncio.Future[Finished]", limit_s: float) -> SandboxExecResult:
    """Return the result of a killed command, with the output that it had written."""
    stdout, stderr = b"", b""
    with contextlib.suppress(OSError):  # its output cannot be had
        stdout, stderr = _streams(await work)
    message = f"the command was stopped at its time limit of {limit_s:g} s"
    errors = stderr.decode("utf-8", "replace")
    return SandboxExecResult(
        stdout.decode("utf-8", "replace"),
        f"{errors.rstrip()}\n{message}".lstrip(),
        RUNTIME_FAILED,
        TIMED_OUT,
    )


def _streams(finished: Finished) -> tuple[bytes, bytes]:
    return finished.output, finished.errors


def required_program(name: str, bin_path: str | None = None) -> str:
    """Return the path of a program. Raises ProviderUnavailable: it is not installed."""
    if bin_path is not None:
        if Path(bin_path).is_file() and os.access(bin_path, os.X_OK):
            return bin_path
        raise ProviderUnavailable(f"{bin_path} is not a program: set the path of `{name}`")
    path = shutil.which(name)
    if path is None:
        raise ProviderUnavailable(
            f"the program `{name}` was not found on PATH; install it, or use another sandbox provider"
        )
    return path


def container_name() -> str:
    """Return a new name for a container."""
    return f"palestra-{uuid4().hex[:20]}"


def settings_of(kind: type[Settings], settings: Any, *, where: str) -> Settings:
    """Return the dataclass `kind` from a mapping, an instance or None.

    Raises ValueError: a key is no field. Raises TypeError: `settings` has another type.
    """
    if isinstance(settings, kind):
        return settings
    values = plain(settings)
    if values is None:
        return kind()
    if not isinstance(values, Mapping):
        raise TypeError(f"`{where}` must be a mapping, not {type(values).__name__}")
    names = [setting.name for setting in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    unknown_names = sorted(str(key) for key in values if key not in names)
    if unknown_names:
        raise ValueError(
            f"unknown settings in `{where}`: {', '.join(unknown_names)}; known: {', '.join(names)}"
        )
    return kind(**values)
