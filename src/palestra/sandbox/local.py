"""The two backends of this machine: programs isolated by bubblewrap, and plain processes without
isolation.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Final, final

from palestra.errors import InfraError
from palestra.sandbox.backend import ConversationEnded, ProgramNotStarted
from palestra.sandbox.bubblewrap import Tools, command_line
from palestra.sandbox.keeping.keep import MOST_STARVED
from palestra.sandbox.keeping.order import Bounds, RunOrder, RunOutcome, outcome_in
from palestra.sandbox.launching import KeeperLauncher
from palestra.sandbox.limits import MIB, Limits, SandboxResult, Stop
from palestra.sandbox.program import ENVIRONMENT, PYTHON, Program
from palestra.sandbox.seccomp import seccomp_filter
from palestra.system import on_failure

TMP_FILES: Final = 20_000
"""The maximum number of files that an isolated program may have at the same time. The kernel needs
half a KiB for each."""

ENDS_WITHIN_S: Final = 60.0
"""The seconds that a keeper may take to end a program's processes and to report."""

LINGERS_S: Final = 2.0
"""The seconds that a program may take to exit after it has closed the conversation."""

_LENGTH: Final = struct.Struct(">I")


@final
class LocalBackend:
    """Runs programs on this machine. With `tools`, bubblewrap isolates every program. Without
    `tools`, no program is isolated.
    """

    def __init__(self, python: str, tools: Tools | None) -> None:
        self._python = python
        self._tools = tools
        self._launcher = KeeperLauncher()
        self._keepers: set[_Keeper] = set()
        self._filter = seccomp_filter() if tools is not None else b""

    @property
    def name(self) -> str:
        """The backend's name in the settings: `bubblewrap` or `process`."""
        return "process" if self._tools is None else "bubblewrap"

    @property
    def isolates(self) -> bool:
        """Whether the backend protects the machine's files, network and processes from a hostile
        program.
        """
        return self._tools is not None

    async def run(self, program: Program, stdin: bytes, limits: Limits, /) -> SandboxResult:
        """Run a program to its end. Raises `InfraError` when the run failed for a reason outside
        the program.
        """
        async with self._keeper(program, stdin, limits) as keeper:
            return await keeper.result(within_s=MOST_STARVED * limits.wall_s + ENDS_WITHIN_S)

    @contextlib.asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, /, *, rests: bool
    ) -> AsyncIterator["LocalConversation"]:
        """Start a program that answers messages. It is stopped when the context ends."""
        del rests  # places are the sandbox's affair
        ours, theirs = socket.socketpair()
        with theirs:
            keeper_of_it = self._keeper(program, b"", limits, theirs)
            async with contextlib.AsyncExitStack() as stack:
                with on_failure(ours.close):
                    keeper = await stack.enter_async_context(keeper_of_it)
                    theirs.close()
                    reader, writer = await asyncio.open_unix_connection(sock=ours)
                stack.callback(writer.transport.abort)
                longest = limits.output_kib * 1024
                yield LocalConversation(keeper, reader, writer, longest)

    async def aclose(self) -> None:
        """End the launcher and all running programs. Calls that wait for a program raise an error."""
        self._launcher.close()
        for keeper in list(self._keepers):
            keeper.let_go()

    @contextlib.asynccontextmanager
    async def _keeper(
        self, program: Program, stdin: bytes, limits: Limits, *channel: socket.socket
    ) -> AsyncIterator["_Keeper"]:
        order = self._order(program, limits)
        ours, theirs = socket.socketpair()
        with on_failure(ours.close):
            with theirs:
                await self._launcher.hand_over(theirs, *channel)
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        keeper = _Keeper(reader, writer)
        self._keepers.add(keeper)
        try:
            if self._launcher.closed:
                raise InfraError("the sandbox was closed")
            contents = program.files.values()
            await _send(writer, (order.encoded(), stdin, self._filter, *contents))
            yield keeper
        finally:
            self._keepers.discard(keeper)
            await _to_its_end(keeper.gone(within_s=ENDS_WITHIN_S))

    def _order(self, program: Program, limits: Limits) -> RunOrder:
        bounds = Bounds(
            cpu_s=limits.cpu_s,
            wall_s=limits.wall_s,
            memory_bytes=limits.memory_mib * MIB,
            processes=limits.processes,
            output_bytes=limits.output_kib * 1024,
            file_bytes=limits.file_mib * MIB,
            tmp_files=TMP_FILES,
        )
        files = tuple(program.files)
        if self._tools is not None:
            argv = command_line(
                self._tools, program, tmp_mib=limits.tmp_mib, seccomp=bool(self._filter)
            )
            return RunOrder(argv, dict(ENVIRONMENT), bounds, isolated=True, files=files)
        first, *arguments = program.argv
        argv = (self._python if first == PYTHON else first, *arguments)
        env = {**ENVIRONMENT, **program.env}
        return RunOrder(argv, env, bounds, isolated=False, files=files)


@final
class _Keeper:
    """Our side of one keeper's control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._reported = False

    def stop(self) -> None:
        """Stop the program. Its result is still reported."""
        with contextlib.suppress(OSError, RuntimeError):  # we have let go of it
            self._writer.write_eof()

    def let_go(self) -> None:
        """Close the control socket, which kills the program at once, without a result."""
        with contextlib.suppress(RuntimeError):  # its event loop has gone, and it with that
            self._writer.transport.abort()

    async def gone(self, *, within_s: float) -> None:
        """Stop the program, and wait until all its processes have ended."""
        if not self._reported:
            self.stop()
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(within_s):
                    await self._reader.read()
        self.let_go()

    async def result(self, *, within_s: float) -> SandboxResult:
        try:
            async with asyncio.timeout(within_s):
                frame, out, err = [await _receive(self._reader) for _ in range(3)]
            self._reported = True  # which it is when nothing is left
        except TimeoutError:
            raise InfraError(f"a sandboxed program did not end within {within_s:.0f} s") from None
        except (asyncio.IncompleteReadError, OSError):
            raise InfraError("the keeper of a sandboxed program died") from None
        return _result(outcome_in(frame), out, err)


@final
class LocalConversation:
    """A running program that answers one message at a time."""

    def __init__(
        self,
        keeper: _Keeper,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        longest_answer: int,
    ) -> None:
        self._keeper = keeper
        self._reader = reader
        self._writer = writer
        self._longest = longest_answer
        self._result: SandboxResult | None = None
        self._failure: InfraError | None = None
        """Why there is no result, as the keeper reported it: it does so once."""
        self._refused: Stop | None = None
        """For what we ended it, when it was not at a limit of its own."""

    async def ask(self, message: bytes, /, *, within_s: float) -> bytes:
        """Send a message and return the program's answer. Raises `ConversationEnded` when it gives
        none.
        """
        if self._result is not None:
            raise ConversationEnded
        try:
            async with asyncio.timeout(within_s):
                await _send(self._writer, [message])
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if length <= self._longest:
                    return await self._reader.readexactly(length)
            self._refused = Stop.OUTPUT
        except TimeoutError:
            self._refused = Stop.WALL
        except (asyncio.IncompleteReadError, OSError):
            # It has ended, or is about to: how, is its own to say.
            await self._ended_by_itself()
        await self.end()
        raise ConversationEnded

    async def end(self) -> SandboxResult:
        """Stop the program if it still runs, and return how it ended."""
        if self._result is None:
            self._keeper.stop()
            result = await self._reported()
            if result.stopped_by is Stop.US and self._refused is not None:
                result = result.model_copy(update={"stopped_by": self._refused})
            self._result = result
        return self._result

    async def _ended_by_itself(self) -> None:
        reporting = asyncio.ensure_future(self._reported())
        try:
            reported, _ = await asyncio.wait([reporting], timeout=LINGERS_S)
            if not reported:
                # It closed its standard input and output, and goes on.
                self._keeper.stop()
            self._result = await reporting
        finally:
            reporting.cancel()

    async def _reported(self) -> SandboxResult:
        if self._failure is not None:
            raise self._failure
        try:
            return await self._keeper.result(within_s=ENDS_WITHIN_S)
        except InfraError as failure:
            self._failure = failure
            raise


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Await `work` to its end, even if this task is cancelled meanwhile. `work` must have its own
    time limit.
    """
    working = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    working.result()


async def _send(writer: asyncio.StreamWriter, frames: Sequence[bytes]) -> None:
    try:
        for frame in frames:
            writer.write(_LENGTH.pack(len(frame)))
            writer.write(frame)
        await writer.drain()
    except OSError:
        # The other end is gone; why, it says itself, or the missing answer does.
        return


async def _receive(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)


def _result(outcome: RunOutcome, out: bytes, err: bytes) -> SandboxResult:
    if outcome.not_executable:
        raise ProgramNotStarted(f"the program cannot be executed: {outcome.failure}")
    if outcome.failure:
        raise InfraError(f"the sandbox failed: {outcome.failure}")
    return SandboxResult(
        stdout=out.decode(errors="replace"),
        stderr=err.decode(errors="replace"),
        exit_code=outcome.exit_code,
        stopped_by=Stop(outcome.stopped_by) if outcome.stopped_by else None,
        cpu_s=outcome.cpu_s,
        wall_s=outcome.wall_s,
        peak_memory_bytes=outcome.peak_memory_bytes,
        machine_full=outcome.machine_full,
    )
