"""Sessions: one rollout's state on one server.

A session is identified by its id, in a signed cookie named `{ClassName}___{instance}`. Its state is
in the server's memory from the rollout's first call to the last (`verify`). If a rollout never
comes back, its session is dropped after the rollout's deadline, and not before `idle_limit_s`.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Self, final

from palestra.schema import JsonDict, field_of
from palestra.server.authors_errors import text_of
from palestra.server.own_errors import faulty_line
from palestra.transport import current_call

logger = logging.getLogger("palestra.server")

SESSION_ID_KEY = "session_id"
CLOSE_SESSION = "/close_session"
"""The path where an agent reports that a rollout was given up, so that its session can be closed.
"""


MOST_TOOL_FAILURES = 50
"""The largest number of tool faults kept per rollout: a model may call a broken tool again and
again."""
LONGEST_MESSAGE = 500
"""The largest number of characters kept of a tool's exception."""


class UnknownTool(Exception):
    """The environment has tools, and none of the name that the model called."""


@dataclass(frozen=True, slots=True)
class ToolFault:
    """A tool call that failed with an unexpected exception, which is a bug; or a call of a tool that
    does not exist, which is the model's own mistake unless its row offers the tool.
    """

    tool: str
    type: str
    message: str
    at: str = ""
    """`FILE:LINE in FUNCTION` of the code that failed; empty when it is not known."""

    @classmethod
    def of(cls, path: str, error: BaseException) -> Self:
        """Return the fault of the tool at `path`, which raised `error`."""
        message = text_of(error)[:LONGEST_MESSAGE]
        return cls(path.removeprefix("/"), type(error).__name__, message, faulty_line(error))

    def is_of_row(self, params: Any) -> bool:
        """Whether the call was not the mistake of a model that was asked with `params`."""
        if self.type != UnknownTool.__name__:
            return True
        tools = field_of(params, "tools")
        offered = tools if isinstance(tools, list) else ()
        return any(field_of(tool, "name") == self.tool for tool in offered)

    def as_json(self) -> JsonDict:
        """Return an entry of a row's `TOOL_FAILURES`."""
        return {name: value for name, value in asdict(self).items() if name != "at" or value}


@dataclass(slots=True)
class Session:
    """One rollout's state on one server. The environment uses `state` freely."""

    id: str
    state: dict[str, Any] = field(default_factory=dict)
    last_used: float = field(default_factory=time.monotonic)
    deadline: float | None = None
    """The rollout's deadline, a `time.monotonic()` value."""
    tool_faults: list[ToolFault] = field(default_factory=list, repr=False)
    """The first tool calls that failed with a bug; `verify` adds them to the row."""
    _endings: list[Callable[[], object]] = field(default_factory=list, repr=False)

    def at_end(self, release: Callable[[], object]) -> None:
        """Call `release` when the session ends: verified, dropped, or the server stops.

        Use it for resources other than memory: a process, a file. `release` is called once, on the
        event loop; the function added last is called first. It must not block. Its errors are only
        logged.
        """
        self._endings.append(release)

    def note_fault(self, fault: ToolFault) -> None:
        """Keep a tool fault for the row, up to `MOST_TOOL_FAILURES`."""
        if len(self.tool_faults) < MOST_TOOL_FAILURES:
            self.tool_faults.append(fault)

    def end(self) -> None:
        """Call the functions added with `at_end`."""
        while self._endings:
            release = self._endings.pop()
            try:
                release()
            except Exception:
                logger.exception("session %s: %r failed at its end", self.id, release)


@final
class SessionStore:
    """The live sessions of one server process.

    With `keep=False` nothing is stored: a model server only needs the id of the conversation that a
    request belongs to.
    """

    def __init__(self, *, keep: bool = True, idle_limit_s: float = 3600.0) -> None:
        self._keep = keep
        self._sessions: dict[str, Session] = {}
        self._idle_limit_s = idle_limit_s
        self._next_sweep = time.monotonic() + idle_limit_s

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, session_id: str) -> Session:
        """Return the session with this id; make it on first use."""
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

    def tool_faults(self, session_id: str) -> list[ToolFault]:
        """Return the tool faults of a session so far; none for an unknown id."""
        session = self._sessions.get(session_id)
        return [] if session is None else session.tool_faults

    def close(self, session_id: str) -> Session | None:
        """End a session and return it; None for an unknown id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()
        return session

    def close_all(self) -> None:
        """End every session."""
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
