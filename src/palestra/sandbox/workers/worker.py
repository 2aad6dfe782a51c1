"""The program of a worker process: it answers calls until it must be replaced."""

import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from palestra.sandbox.workers.frames import answer_frame, read_call, receive
from palestra.sandbox.workers.outcomes import LONGEST_NOTE

Serve = Callable[[socket.socket, "Endurance"], object]
"""A function that serves the socket of a worker's calls. The worker ends when it returns."""

STACK_SIGNAL: Final = signal.SIGRTMAX - 1 if sys.platform == "linux" else signal.SIGUSR2
"""The signal on which a worker with a handler for it writes its stack to the socket of its calls.
"""

READY, VALUE, RAISED, NO_MEMORY = "ready", "value", "raised", "no memory"
"""What an answer begins with; its second item says whether it is the worker's last."""


@dataclass(frozen=True, slots=True)
class Endurance:
    """How much a worker may do before it is replaced, and how much memory it may use."""

    memory_mib: int
    """MiB of address space, in addition to what the worker had when it was forked."""
    calls: int
    growth_mib: int
    """A worker is replaced when its resident memory has grown by this many MiB."""


def calls_by_name(_argument: object) -> Serve:
    """Return the program of CPU workers, in which each call names its function."""
    return serve


def serve(sock: socket.socket, endurance: Endurance) -> None:
    """Answer calls on `sock`. Returns when the caller has closed it, or when the worker must be
    replaced.
    """
    limit_worker(endurance.memory_mib)
    resident_at_first = _peak_resident_mib()
    sock.sendall(answer_frame(READY, False, os.getpid()))
    for number in range(1, endurance.calls + 1):
        call = receive(sock)
        if call is None:
            return
        kind, *payload = _answer(call)
        grown = _peak_resident_mib() - resident_at_first > endurance.growth_mib
        last = kind == NO_MEMORY or grown or number == endurance.calls
        sock.sendall(_sayable(kind, last, *payload))
        if last:
            return


def _answer(call: bytes) -> tuple[Any, ...]:
    # Whatever it raises, SystemExit and libraries' own BaseExceptions too, is the function's.
    try:
        name, args = read_call(call)
        return VALUE, function_named(name)(*args)
    except MemoryError:
        return (NO_MEMORY,)
    except BaseException as error:
        return _raised(error)


def _raised(error: BaseException) -> tuple[str, str, str, str]:
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    trace_text = "".join(traceback.format_tb(error.__traceback__))
    return (
        RAISED,
        type(error).__name__,
        _text(message[:LONGEST_NOTE]),
        _text(trace_text[-LONGEST_NOTE:]),
    )


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _sayable(kind: str, last: bool, *payload: Any) -> bytes:
    try:
        return answer_frame(kind, last, *payload)
    except Exception as error:
        _, name, message, trace_text = _raised(error)
        return answer_frame(RAISED, last, name, f"the value cannot be sent: {message}", trace_text)


@cache
def function_named(name: str) -> Callable[..., Any]:
    """Return the function that `package.module:name` names."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    return function


def limit_worker(memory_mib: int) -> None:
    """Disable core files, and limit the address space to its present size plus `memory_mib` MiB."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return  # macOS does not enforce this limit anyway
    present = int(statm.read_text("ascii").split()[0]) * resource.getpagesize()
    limit = present + memory_mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak_resident_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
