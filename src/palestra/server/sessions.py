"""Sessions: what one rollout keeps on one server.

A session is known by its id, which travels in a signed cookie named
`{ClassName}___{instance}`. Its state lives in the server's memory from the first call to the
last (`verify`). Of a rollout that never came back it is forgotten when its deadline has passed,
and not before `idle_limit_s`.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from palestra.transport import current_call

logger = logging.getLogger("palestra.server")

SESSION_ID_KEY = "session_id"
CLOSE_SESSION = "/close_session"
"""Where an environment is told that a rollout was given up, and its session is of no use."""


MOST_TOOL_FAILURES = 50
"""Of one rollout that are kept: a model may call a broken tool for ever."""
LONGEST_MESSAGE = 500
"""Characters of a tool's exception that are kept."""


@dataclass(frozen=True, slots=True)
class ToolFault:
    """A tool call that ended in an exception nobody meant."""

    tool: str
    type: str
    message: str


@dataclass(slots=True)
class Session:
    """One rollout's state on one server. `state` is the environment's to fill."""

    id: str
    state: dict[str, Any] = field(default_factory=dict)
    last_used: float = field(default_factory=time.monotonic)
    deadline: float | None = None
    """By when its rollout must be done, a `time.monotonic()` value."""
    tool_faults: list[ToolFault] = field(default_factory=list, repr=False)
    """Its tool calls that failed of a bug, the first of them; `verify` adds them to the row."""
    _endings: list[Callable[[], object]] = field(default_factory=list, repr=False)

    def at_end(self, release: Callable[[], object]) -> None:
        """Call `release` when the session is over: verified, forgotten, or its server stops.

        For what the state holds beyond memory: a process, a file. It is called once, on the event
        loop, last come first; it must not block, and what it raises is only logged.
        """
        self._endings.append(release)

    def note_fault(self, fault: ToolFault) -> None:
        """Keep one for the row, as long as there are few."""
        if len(self.tool_faults) < MOST_TOOL_FAILURES:
            self.tool_faults.append(fault)

    def end(self) -> None:
        """Release what the session holds."""
        while self._endings:
            release = self._endings.pop()
            try:
                release()
            except Exception:
                logger.exception("session %s: %r failed at its end", self.id, release)


@final
class SessionStore:
    """The live sessions of one server process.

    With `keep=False` nothing is remembered: a model server only needs to know which
    conversation a request belongs to.
    """

    def __init__(self, *, keep: bool = True, idle_limit_s: float = 3600.0) -> None:
        self._keep = keep
        self._sessions: dict[str, Session] = {}
        self._idle_limit_s = idle_limit_s
        self._next_sweep = time.monotonic() + idle_limit_s

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, session_id: str) -> Session:
        """The session of that id, made on its first use."""
        if not self._keep:
            return Session(session_id)
        now = time.monotonic()
        session = self._sessions.get(session_id)
        if session is None:
            if now > self._next_sweep:
                self._sweep(now)
            session = self._sessions[session_id] = Session(session_id)
        session.last_used = now
        session.deadline = current_call().deadline
        return session

    def close(self, session_id: str) -> Session | None:
        """Forget a session, which is given back; unknown ids are fine."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()
        return session

    def close_all(self) -> None:
        """Forget every session."""
        for session_id in list(self._sessions):
            self.close(session_id)

    def _sweep(self, now: float) -> None:
        oldest = now - self._idle_limit_s
        # A rollout may be slower than that: what has time left may still come back.
        left_behind = [
            session.id
            for session in self._sessions.values()
            if session.last_used < oldest and (session.deadline or 0.0) < now
        ]
        for session_id in left_behind:
            self.close(session_id)
        self._next_sweep = now + self._idle_limit_s / 4
