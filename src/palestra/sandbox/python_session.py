"""Python sessions: an interpreter for each rollout, in the sandbox, that remembers its cells."""

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
"""Of a whole session. Its cells have limits of their own."""

_WORDS: Final = {
    Stop.CPU: "the session used all its CPU time",
    Stop.MEMORY: "the cell used more memory than it may",
    Stop.PROCESSES: "the cell started more processes than it may",
    Stop.FILES: "the cell made more files than it may",
    Stop.OUTPUT: "the cell wrote more than it may",
}
OVERRAN: Final = 128 + signal.SIGPROF
"""How the interpreter ends when a cell cannot be stopped at its CPU time."""

RESTARTED: Final = "The interpreter was restarted: what earlier cells defined is gone."


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one cell printed and showed."""

    stdout: str = ""
    stderr: str = ""
    """With the traceback, when it raised."""

    result: str | None = None
    """The value of its last line, as `repr` shows it, when that is an expression."""

    failed: bool = False
    notice: str = ""
    """For the model, about the session: that it was stopped, begins anew, or has something running
    that the cell left behind. Mostly empty."""


@dataclass(frozen=True, slots=True)
class CellLimits:
    """Limits of one cell."""

    cpu_s: float = 10.0
    """CPU seconds. A cell that is stopped there leaves its variables behind."""

    wall_s: float = 60.0
    """Seconds. A cell that is stopped there takes the interpreter with it."""

    output_chars: int = 20_000
    """Characters of standard output, of standard error, and of the result, that are kept."""


@final
class PythonSession:
    """One interpreter. Cells run one after the other; it starts with the first."""

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
        """Run a cell. Whatever it does is in the result.

        Raises `InfraError` as `Sandbox` does, and when the interpreter is lost: how the cell went
        is unknown then, and the next one begins anew, and is told so.
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
        """End the interpreter. A later cell would begin a new one."""
        async with self._turn:
            await self._end()

    def forget(self, notice: str) -> None:
        """Say `notice` with the next cell."""
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
    """What the interpreter says. The model's code runs beside it, and may have said this itself."""
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
    """Sessions by the id of their rollout's session: bounded in number, and in idle time."""

    sandbox: Sandbox
    limits: Limits = SESSION_LIMITS
    cell_limits: CellLimits = field(default_factory=CellLimits)
    most: int = 256
    """Interpreters at the same time. One more ends the one that was idle the longest."""

    idle_s: float = 1800.0
    """Seconds without a cell after which an interpreter is ended."""

    clock: Callable[[], float] = time.monotonic
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._kept)

    async def execute(self, session_id: str, code: str) -> CellResult:
        """Run a cell in the session of that id, which its first cell begins."""
        await self._make_room(session_id)
        session = self._kept.get(session_id)
        if session is None:
            session = self._kept[session_id] = self._begin(session_id)
        session.busy += 1
        try:
            return await session.session.execute(code)
        finally:
            session.busy -= 1
            session.last_used = self.clock()

    async def close(self, session_id: str) -> None:
        """The rollout has ended, and its interpreter with it. Unknown ids are fine."""
        self._ended.discard(session_id)
        session = self._kept.pop(session_id, None)
        if session is not None:
            await session.session.aclose()

    async def aclose(self) -> None:
        """End all of them."""
        for session_id in list(self._kept):
            await self.close(session_id)

    def _begin(self, session_id: str) -> _Kept:
        session = PythonSession(self.sandbox, limits=self.limits, cell_limits=self.cell_limits)
        if session_id in self._ended:
            self._ended.discard(session_id)
            session.forget(RESTARTED)
        return _Kept(session, self.clock())

    async def _make_room(self, newcomer: str) -> None:
        now = self.clock()
        idle = sorted(
            (session.last_used, session_id)
            for session_id, session in self._kept.items()
            if not session.busy and session_id != newcomer
        )
        too_many = len(self._kept) + (newcomer not in self._kept) - self.most
        for number, (last_used, session_id) in enumerate(idle):
            if number < too_many or now - last_used > self.idle_s:
                await self.close(session_id)
                self._ended.add(session_id)
