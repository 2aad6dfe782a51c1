"""The outcomes of a call in a worker, and the interface of workers."""

from dataclasses import dataclass
from typing import Any, Protocol

from palestra.errors import VerifierError
from palestra.system import signal_name

LONGEST_NOTE = 2_000
"""The maximum number of characters kept of an exception's message, and of its traceback."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned `value`. MessagePack transports it, so tuples have become lists."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised an exception. `kind` is the exception's class name."""

    kind: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The call was killed at its limit."""

    limit_s: float


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The call needed more memory than a worker may have."""

    limit_mib: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """Native code ended the process with this signal (11: SIGSEGV, 6: SIGABRT)."""

    signal: int

    @property
    def name(self) -> str:
        """The signal's name, such as `SIGSEGV`, or its number for a signal without a name."""
        return signal_name(self.signal)


Outcome = Returned | Raised | TimedOut | OutOfMemory | Crashed


class WorkersBroken(VerifierError):
    """The workers themselves failed, so nothing is known about the data."""


class NotReady(WorkersBroken):
    """A worker was not ready in time."""

    stacks = ""
    """Where the imports stood at that time, in faulthandler's format. Empty when unknown."""


class Workers(Protocol):
    """Runs functions by name. As many calls run at the same time as there are cores; others wait in
    order of arrival.
    """

    async def call(self, function: str, /, *args: Any, limit_s: float) -> Outcome:
        """Run `function` (`package.module:name`) with `args` in a worker process.

        `limit_s`: seconds from the start of the function until it is killed. Waiting for a worker,
        or for a core of the machine, does not count. Cancelling the call kills the worker, too.
        Raises WorkersBroken when no worker could run the call.
        """
        ...

    async def close(self) -> None:
        """End every process. Calls that still run raise WorkersBroken."""
        ...
