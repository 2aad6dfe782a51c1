"""One door for untrusted code: run a program within limits, and see what it did.

`Sandbox.run` takes a `Program` and `Limits` and gives a `SandboxResult`, whatever the program
does. Where it runs is a setting: isolated by bubblewrap, on a machine that serves a sandbox, or,
for code that is trusted, in a plain process.
"""

from palestra.sandbox.backend import Backend, Conversation, ConversationEnded
from palestra.sandbox.inner import conversing
from palestra.sandbox.limits import Limits, SandboxResult, Stop
from palestra.sandbox.program import PYTHON, Program
from palestra.sandbox.python_session import (
    CellLimits,
    CellResult,
    PythonSession,
    PythonSessions,
)
from palestra.sandbox.sandbox import Sandbox
from palestra.sandbox.settings import SandboxSettings

__all__ = [
    "PYTHON",
    "Backend",
    "CellLimits",
    "CellResult",
    "Conversation",
    "ConversationEnded",
    "Limits",
    "Program",
    "PythonSession",
    "PythonSessions",
    "Sandbox",
    "SandboxResult",
    "SandboxSettings",
    "Stop",
    "conversing",
]
