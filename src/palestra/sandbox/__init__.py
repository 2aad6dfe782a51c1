"""One door for untrusted code: run a program within limits, and see what it did. And heavy work
of our own that must not run on the event loop: killable workers.

`Sandbox.run` takes a `Program` and `Limits` and gives a `SandboxResult`, whatever the program
does. Where it runs is a setting: isolated by bubblewrap, on a machine that serves a sandbox, or,
for code that is trusted, in a plain process. `open_workers` gives the CPU workers: on this
machine's cores, or spread over a Ray cluster.
"""

from typing import TYPE_CHECKING

from palestra.sandbox.backend import Backend, Conversation, ConversationEnded
from palestra.sandbox.inner import conversing
from palestra.sandbox.limits import (
    HOST_VARIABLE,
    PORT_VARIABLE,
    TOKEN_VARIABLE,
    Limits,
    SandboxResult,
    SandboxSettings,
    Stop,
)
from palestra.sandbox.processors import usable_processors
from palestra.sandbox.program import PYTHON, Program
from palestra.sandbox.python_session import (
    SESSION_LIMITS,
    CellLimits,
    CellResult,
    PythonSession,
    PythonSessions,
)
from palestra.sandbox.sandbox import Sandbox
from palestra.sandbox.workers.frames import receive
from palestra.sandbox.workers.handle import CRASHES, WorkerHandle
from palestra.sandbox.workers.keeper import Keeper, nurseries_kept
from palestra.sandbox.workers.local import LocalWorkers, open_workers
from palestra.sandbox.workers.outcomes import (
    Crashed,
    NotReady,
    Outcome,
    OutOfMemory,
    Raised,
    Returned,
    TimedOut,
    Workers,
    WorkersBroken,
)
from palestra.sandbox.workers.worker import READY, STACK_SIGNAL, Endurance, Serve, limit_worker

if TYPE_CHECKING:
    from palestra.sandbox.service import SandboxService

__all__ = [
    "CRASHES",
    "HOST_VARIABLE",
    "PORT_VARIABLE",
    "PYTHON",
    "READY",
    "SESSION_LIMITS",
    "STACK_SIGNAL",
    "TOKEN_VARIABLE",
    "Backend",
    "CellLimits",
    "CellResult",
    "Conversation",
    "ConversationEnded",
    "Crashed",
    "Endurance",
    "Keeper",
    "Limits",
    "LocalWorkers",
    "NotReady",
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
    "Serve",
    "Stop",
    "TimedOut",
    "WorkerHandle",
    "Workers",
    "WorkersBroken",
    "conversing",
    "limit_worker",
    "nurseries_kept",
    "open_workers",
    "receive",
    "sandbox_service",
    "usable_processors",
]


def sandbox_service(sandbox: Sandbox, *, token: str) -> "SandboxService":
    """`sandbox` for other machines, at an address: `app()` of the result answers the calls."""
    # Workers import this package when they start, and need no web server.
    from palestra.sandbox.service import SandboxService

    return SandboxService(sandbox, token=token)
