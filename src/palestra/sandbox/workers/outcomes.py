"""How a call in a worker ends, and what workers are to their callers."""

from dataclasses import dataclass
from typing import Any, Protocol

from palestra.errors import VerifierError
from palestra.system import signal_name

LONGEST_NOTE = 2_000
"""Characters of an exception's message and traceback that are kept."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The function's value: what MessagePack can say, so tuples have become lists."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised. `kind` is the exception's class name."""

    kind: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The call was killed at its limit."""

    limit_s: float


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The call wanted more memory than a worker may have."""

    limit_mib: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """Native code ended the process, by this signal (11: SIGSEGV, 6: SIGABRT)."""

    signal: int

    @property
    def name(self) -> str:
        """`SIGSEGV`, or `signal 99` for one without a name."""
        return signal_name(self.signal)


Outcome = Returned | Raised | TimedOut | OutOfMemory | Crashed


class WorkersBroken(VerifierError):
    """The workers themselves do not work: nothing is known about the data."""


class NotReady(WorkersBroken):
    """A worker was not ready in time."""

    stacks = ""
    """Where the imports stood then, as faulthandler writes it; empty where nothing told."""


class Workers(Protocol):
    """Runs functions by name, as many at once as there are cores, first come first served."""

    async def call(self, function: str, /, *args: Any, limit_s: float) -> Outcome:
        """Run `function` (`package.module:name`) with `args` in a worker process.

        `limit_s`: seconds from its start until it is killed; waiting for its turn, or for a core
        of the machine, does not count. Cancelling the call kills the worker too. Raises
        WorkersBroken when no worker could run it.
        """
        ...

    async def close(self) -> None:
        """End every process; calls that still run end with WorkersBroken."""
        ...
