"""`Sandbox`: the only way to run untrusted code."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, Self, final

from palestra.errors import ConfigError, InfraError, KnownCause
from palestra.sandbox.backend import Backend, Conversation
from palestra.sandbox.bubblewrap import IsolationMethod, Tools, find_tools, forbidden_by
from palestra.sandbox.limits import (
    DEFAULT_PORT,
    HOST_VARIABLE,
    PORT_VARIABLE,
    TOKEN_VARIABLE,
    Limits,
    SandboxResult,
    SandboxSettings,
)
from palestra.sandbox.local import LocalBackend
from palestra.sandbox.processors import usable_processors
from palestra.sandbox.program import Program

logger = logging.getLogger("palestra.sandbox")

_PROBE: Final = Program.python("import os, sys; sys.stdout.write(sys.stdin.read() + 'probed')")
_PROBE_LIMITS: Final = Limits(cpu_s=20, wall_s=60)

REMOTE_PLACES: Final = 1024

NOT_ISOLATED: Final = (
    "programs run as plain processes: with limits, but nothing keeps them from this machine's "
    "files, its network and your other processes"
)


@final
class Sandbox:
    """Runs untrusted programs, a limited number at a time.

    Call `start` before the first run, or let the first run do it. Close the sandbox after the last
    run.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        backend: Backend | None = None,
    ) -> None:
        self._settings = settings or SandboxSettings()
        self._environ = environ
        self._backend = backend
        self._places: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None
        self._choosing: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def start(self) -> Backend:
        """Choose the backend by testing it. Raises `ConfigError` when no backend works."""
        if self._backend is None:
            async with self._choice():
                if self._backend is None:
                    self._backend = await choose(self._settings, self._environ)
        return self._backend

    async def aclose(self) -> None:
        """Close the backend, and stop programs that still run."""
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.aclose()

    async def run(
        self, program: Program, *, stdin: str | bytes = b"", limits: Limits | None = None
    ) -> SandboxResult:
        """Run a program to its end, once a slot is free.

        The result describes whatever the program does. Raises `InfraError` when the sandbox itself
        failed, and `ConfigError` as `start` does. Cancelling the call ends the program.
        """
        _refuse_code(program)
        if not isinstance(stdin, str | bytes):
            raise TypeError(
                f"stdin is a text, not {type(stdin).__name__} ({stdin!r:.40}): write stdin=str(…)"
            )
        backend = await self.start()
        stdin_bytes = stdin.encode("utf-8", "replace") if isinstance(stdin, str) else stdin
        async with self._slots():
            return await backend.run(program, stdin_bytes, limits or Limits())

    @contextlib.asynccontextmanager
    async def converse(
        self, program: Program, *, limits: Limits | None = None, rests: bool = False
    ) -> AsyncIterator[Conversation]:
        """Start a program that answers messages. It is stopped when the context ends.

        It starts once a slot is free, and keeps the slot to its end. With `rests`, for a program
        that may be idle for long, it starts at once and takes a slot only while it answers a
        message. Waiting for a slot counts for no limit. Raises the same errors as `run`.
        """
        _refuse_code(program)
        backend = await self.start()
        bounds = limits or Limits()
        if rests:
            async with backend.converse(program, bounds, rests=True) as conversation:
                yield _Resting(conversation, self._slots)
        else:
            async with (
                self._slots(),
                backend.converse(program, bounds, rests=False) as conversation,
            ):
                yield conversation

    def _slots(self) -> asyncio.Semaphore:
        """Return the semaphore of the slots for running programs. Acquiring it waits until a slot
        is free.
        """
        loop = asyncio.get_running_loop()
        if self._places is None or self._places[0] is not loop:
            at_once = self._settings.at_once or self._default_places()
            self._places = loop, asyncio.Semaphore(at_once)
        return self._places[1]

    def _default_places(self) -> int:
        """Return the default number of slots: one per core on this machine. A service limits its
        own slots, so many requests may wait there.
        """
        remote = self._backend is not None and self._backend.name == "http"
        return REMOTE_PLACES if remote else usable_processors()

    def _choice(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._choosing is None or self._choosing[0] is not loop:
            self._choosing = loop, asyncio.Lock()
        return self._choosing[1]


def _refuse_code(program: object) -> None:
    """Raise TypeError for code in the place of a program."""
    if not isinstance(program, Program):
        raise TypeError(
            f"the sandbox runs a Program, not a {type(program).__name__}: write Program.python(code)"
        )


@final
class _Resting:
    """A conversation with a program that takes a slot only while it answers a message."""

    def __init__(self, inner: Conversation, semaphore_of: Callable[[], asyncio.Semaphore]) -> None:
        self._inner = inner
        self._slots = semaphore_of

    async def ask(self, message: bytes, /, *, within_s: float) -> bytes:
        """Return the program's answer. `within_s` counts from when a slot is free."""
        async with self._slots():
            return await self._inner.ask(message, within_s=within_s)

    async def end(self) -> SandboxResult:
        """Stop the program if it still runs, and return how it ended."""
        return await self._inner.end()


async def choose(settings: SandboxSettings, environ: Mapping[str, str]) -> Backend:
    """Return the backend that the settings name; for `auto`, the best one that works on this
    machine.
    """
    python = settings.python or sys.executable
    host = settings.host or environ.get(HOST_VARIABLE, "")
    if settings.backend == "http" or (settings.backend == "auto" and host):
        return await _service(settings, host or "127.0.0.1", environ)
    if settings.backend == "process":
        logger.warning("%s", NOT_ISOLATED)
        return LocalBackend(python, None)
    tools = find_tools(python, settings.read_only)
    problem = tools if isinstance(tools, str) else ""
    if isinstance(tools, Tools):
        backend = LocalBackend(python, tools)
        async with contextlib.AsyncExitStack() as unused:
            unused.push_async_callback(backend.aclose)
            problem = await _problem_with(backend)
            if not problem:
                unused.pop_all()
                return backend
        problem = _explained(tools, problem)
    if settings.backend == "auto" and settings.allow_process:
        logger.warning("%s (%s)", NOT_ISOLATED, problem)
        return LocalBackend(python, None)
    raise ConfigError(
        f"there is no sandbox for untrusted code: {problem}",
        hint="install bubblewrap (apt-get install bubblewrap), or point NEMO_SKILLS_SANDBOX_HOST "
        "and _PORT to a machine that runs `palestra sandbox serve`; where the code may be "
        "trusted, sandbox.backend=process runs it without isolation",
        cause=KnownCause.NO_SANDBOX,
    )


async def _problem_with(backend: Backend) -> str:
    """Run a test program; return why the backend cannot be used, or empty text when it works."""
    try:
        result = await backend.run(_PROBE, b"well ", _PROBE_LIMITS)
    except InfraError as error:
        return error.message
    if result.ok and result.stdout == "well probed":
        return ""
    complaint = result.stderr.strip() or f"the probe exits {result.exit_code}"
    return f"a program in it does not run: {complaint[-500:]}"


def _explained(tools: Tools, problem: str) -> str:
    """Return the problem as a message, with its usual cause."""
    if tools.way is IsolationMethod.ROOT:
        return f"bubblewrap does not work here, as root: {problem}"
    setting = forbidden_by()
    because = f"this machine forbids user namespaces ({setting})" if setting else problem
    return f"bubblewrap does not work here: {because}"


async def _service(settings: SandboxSettings, host: str, environ: Mapping[str, str]) -> Backend:
    from palestra.sandbox.http_client import HttpBackend

    port_text = settings.port or environ.get(PORT_VARIABLE) or DEFAULT_PORT
    try:
        port = int(port_text)
    except ValueError:
        raise ConfigError(f"{PORT_VARIABLE} is not a port: {port_text!r}") from None
    backend = HttpBackend(host, port, settings.token or environ.get(TOKEN_VARIABLE, ""))
    async with contextlib.AsyncExitStack() as unused:
        unused.push_async_callback(backend.aclose)
        status = await backend.check()
        if not status.isolates:
            where = f"the sandbox service at {host}:{port} does not isolate programs"
            if settings.backend == "auto" and not settings.allow_process:
                raise ConfigError(
                    f"{where}: its back end is {status.backend}",
                    hint="serve bubblewrap there; or, where the code may be trusted, set "
                    "sandbox.backend=http, which takes the service as it is",
                )
            logger.warning("%s: nothing keeps them from the files and network there", where)
        unused.pop_all()
    return backend
