"""One door for untrusted code: run a program within limits, and see what it did. And heavy work
of our own that must not run on the event loop: killable workers.

`Sandbox.run` takes a `Program` and `Limits` and gives a `SandboxResult`, whatever the program
does. Where it runs is a setting: isolated by bubblewrap, on a machine that serves a sandbox, or,
for code that is trusted, in a plain process. `open_workers` gives the CPU workers: on this
machine's cores, or spread over a Ray cluster.
"""

from palestra.sandbox.backend import Backend, Conversation, ConversationEnded
from palestra.sandbox.inner import conversing
from palestra.sandbox.limits import Limits, SandboxResult, SandboxSettings, Stop
from palestra.sandbox.program import PYTHON, Program
from palestra.sandbox.python_session import (
    SESSION_LIMITS,
    CellLimits,
    CellResult,
    PythonSession,
    PythonSessions,
)
from palestra.sandbox.sandbox import Sandbox
from palestra.sandbox.workers import (
    Crashed,
    LocalWorkers,
    Outcome,
    OutOfMemory,
    Raised,
    Returned,
    TimedOut,
    Workers,
    WorkersBroken,
    open_workers,
)

__all__ = [
    "PYTHON",
    "SESSION_LIMITS",
    "Backend",
    "CellLimits",
    "CellResult",
    "Conversation",
    "ConversationEnded",
    "Crashed",
    "Limits",
    "LocalWorkers",
    "OutOfMemory",
    "Outcome",
    "Program",
    "PythonSession",
    "PythonSessions",
    "Raised",
    "Returned",
    "Sandbox",
    "SandboxResult",
    "SandboxSettings",
    "Stop",
    "TimedOut",
    "Workers",
    "WorkersBroken",
    "conversing",
    "open_workers",
]
