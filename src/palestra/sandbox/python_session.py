"""Python sessions: one interpreter per rollout, in the sandbox, that keeps what its cells define."""

import asyncio
import json
import signal
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, final

from palestra.sandbox.backend import Conversation, ConversationEnded
from palestra.sandbox.inner import conversing, source
from palestra.sandbox.limits import Limits, SandboxResult, Stop
from palestra.sandbox.sandbox import Sandbox

SESSION_LIMITS: Final = Limits(
    cpu_s=86_400, wall_s=86_400, memory_mib=1024, processes=32, output_kib=4096
)
"""The limits of a whole session. Each cell has its own limits, too."""

_WORDS: Final = {
    Stop.CPU: "the session used all its CPU time",
    Stop.MEMORY: "the cell used more memory than it may",
    Stop.PROCESSES: "the cell started more processes than it may",
    Stop.FILES: "the cell made more files than it may",
    Stop.OUTPUT: "the cell wrote more than it may",
}
OVERRAN: Final = 128 + signal.SIGPROF
"""The interpreter's exit code when a cell cannot be stopped at its CPU limit."""

RESTARTED: Final = "The interpreter was restarted: what earlier cells defined is gone."


@dataclass(frozen=True, slots=True)
class CellResult:
    """The output and the value of one cell."""

    stdout: str = ""
    stderr: str = ""
    """Standard error, followed by the traceback if the cell raised an exception."""

    result: str | None = None
    """The `repr` of the last line's value, when the last line is an expression; else None."""

    failed: bool = False
    notice: str = ""
    """A notice for the model about its session: it was stopped, it was restarted, or the cell left
    something running. Usually empty."""


@dataclass(frozen=True, slots=True)
class CellLimits:
    """The limits of one cell."""

    cpu_s: float = 10.0
    """CPU seconds. When a cell is stopped at this limit, the variables that it has set remain."""

    wall_s: float = 60.0
    """Seconds of wall time. When a cell reaches this limit, the whole interpreter is stopped."""

    output_chars: int = 20_000
    """The maximum number of characters kept of standard output, of standard error, and of the
    result, each."""


@final
class PythonSession:
    """One interpreter. It starts with the first cell, and runs one cell at a time."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        limits: Limits = SESSION_LIMITS,
        cell_limits: CellLimits | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._cell_limits = cell_limits or CellLimits()
        self._turn = asyncio.Lock()
        self._open: AsyncExitStack | None = None
        self._conversation: Conversation | None = None
        self._notice = ""

    async def execute(self, code: str) -> CellResult:
        """Run a cell and return its result, also when the cell fails.

        Raises `InfraError` for the same reasons as `Sandbox`, and when the interpreter is lost. It
        is then unknown how the cell ended. The next cell starts a new interpreter, and its notice
        reports the restart.
        """
        async with self._turn:
            conversation = self._conversation or await self._begin()
            notice, self._notice = self._notice, ""
            try:
                return await self._execute(conversation, code, notice)
            except BaseException:
                # Cancelled, it may still be running the cell, and would answer the wrong one next.
                self._notice = RESTARTED
                await self._end()
                raise

    async def aclose(self) -> None:
        """End the interpreter. A later cell starts a new one."""
        async with self._turn:
            await self._end()

    def forget(self, notice: str) -> None:
        """Add `notice` to the result of the next cell."""
        self._notice = notice

    async def _execute(self, conversation: Conversation, code: str, notice: str) -> CellResult:
        limits = self._cell_limits
        cell = {"code": code, "cpu_s": limits.cpu_s, "output_chars": limits.output_chars}
        try:
            answer = await conversation.ask(
                # Half a surrogate pair survives as an escape.
                json.dumps(cell).encode(),
                within_s=limits.wall_s,
            )
            return _cell_result(answer, notice)
        # What answers may be the model's own code, with brackets that no decoder follows.
        except (ConversationEnded, ValueError, KeyError, TypeError, RecursionError):
            result = await conversation.end()
            await self._end()
            return CellResult(failed=True, notice=f"{notice} {self._why(result)}".strip())

    def _why(self, result: SandboxResult) -> str:
        words = _WORDS.get(result.stopped_by) if result.stopped_by else None
        if result.exit_code == OVERRAN:
            words = f"the cell went on after its {self._cell_limits.cpu_s:g} s of CPU time"
        if result.stopped_by in {Stop.US, Stop.WALL}:
            words = f"the cell did not end within {self._cell_limits.wall_s:g} s"
        if words is None:
            words = f"the interpreter ended with exit code {result.exit_code}"
        return f"Stopped: {words}. {RESTARTED}"

    async def _begin(self) -> Conversation:
        program = conversing(source("interpreter"))
        async with AsyncExitStack() as stack:
            conversation = await stack.enter_async_context(
                self._sandbox.converse(program, limits=self._limits, rests=True)
            )
            self._open = stack.pop_all()
        self._conversation = conversation
        return conversation

    async def _end(self) -> None:
        stack, self._open, self._conversation = self._open, None, None
        if stack is not None:
            await stack.aclose()


def _cell_result(answer: bytes, notice: str) -> CellResult:
    """Parse the interpreter's answer. It is untrusted: the model's code runs in the same process
    and may have written it.
    """
    fields = json.loads(answer)
    result = fields["result"]
    return CellResult(
        stdout=_text(fields["stdout"]),
        stderr=_text(fields["stderr"]),
        result=None if result is None else _text(result),
        failed=bool(fields["failed"]),
        notice=f"{notice} {_text(fields['notice'])}".strip(),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {type(value).__name__}")
    return value.encode("utf-8", "replace").decode()


@dataclass(slots=True)
class _Kept:
    session: PythonSession
    last_used: float
    busy: int = 0


@final
@dataclass(slots=True)
class PythonSessions:
    """The Python sessions of a server, by session id. Their number and their idle time are limited."""

    sandbox: Sandbox
    limits: Limits = SESSION_LIMITS
    cell_limits: CellLimits = field(default_factory=CellLimits)
    most: int = 256
    """The maximum number of interpreters at the same time. One more ends the one that was idle
    longest."""

    idle_s: float = 1800.0
    """An interpreter is ended after this many seconds without a cell."""

    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str, _Kept] = field(default_factory=dict)
    _ended_ids: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._sessions)

    async def execute(self, session_id: str, code: str) -> CellResult:
        """Run a cell in the session `session_id`. Its first cell starts the session."""
        await self._make_room(session_id)
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = self._begin(session_id)
        session.busy += 1
        try:
            return await session.session.execute(code)
        finally:
            session.busy -= 1
            session.last_used = self.clock()

    async def close(self, session_id: str) -> None:
        """End the session's interpreter, because its rollout has ended. Unknown ids are ignored."""
        self._ended_ids.discard(session_id)
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.session.aclose()

    async def aclose(self) -> None:
        """End all sessions."""
        for session_id in list(self._sessions):
            await self.close(session_id)

    def _begin(self, session_id: str) -> _Kept:
        session = PythonSession(self.sandbox, limits=self.limits, cell_limits=self.cell_limits)
        if session_id in self._ended_ids:
            self._ended_ids.discard(session_id)
            session.forget(RESTARTED)
        return _Kept(session, self.clock())

    async def _make_room(self, newcomer: str) -> None:
        now = self.clock()
        idle = sorted(
            (session.last_used, session_id)
            for session_id, session in self._sessions.items()
            if not session.busy and session_id != newcomer
        )
        too_many = len(self._sessions) + (newcomer not in self._sessions) - self.most
        for number, (last_used, session_id) in enumerate(idle):
            if number < too_many or now - last_used > self.idle_s:
                await self.close(session_id)
                self._ended_ids.add(session_id)
