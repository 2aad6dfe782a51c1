"""Run untrusted programs within limits, and return what they did. Also run heavy work of Palestra
itself in workers that can be killed, outside the event loop.

`Sandbox.run` takes a `Program` and `Limits` and returns a `SandboxResult`, whatever the program
does. A setting chooses where the program runs: isolated by bubblewrap, on a machine with a sandbox
service, or, for trusted code, in a plain process. `open_workers` starts CPU workers, on this
machine's cores or on a Ray cluster.
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
    """Return a service that offers `sandbox` to other machines. Its `app()` is the ASGI app."""
    # Workers import this package when they start, and need no web server.
    from palestra.sandbox.service import SandboxService

    return SandboxService(sandbox, token=token)
