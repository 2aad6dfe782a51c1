"""How long an orderly stop of this process may take: its own signal handler and its guard must agree."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from palestra.system.pulse import current_pulse


@dataclass(slots=True)
class StopAllowance:
    """What a command's orderly stop may take beyond its usual limit."""

    longer_s: float = 0.0
    """In seconds."""


_current: ContextVar[StopAllowance | None] = ContextVar("palestra_stop_allowance", default=None)


@contextmanager
def stop_allowance() -> Iterator[StopAllowance]:
    """Yield what `allow_longer_stop` fills while the body runs."""
    allowance = StopAllowance()
    token = _current.set(allowance)
    try:
        yield allowance
    finally:
        _current.reset(token)


def allow_longer_stop(seconds: float) -> None:
    """Let the orderly stop of this process take so many seconds more than usual."""
    if (allowance := _current.get()) is not None:
        allowance.longer_s = seconds
    if (pulse := current_pulse()) is not None:
        pulse.allow_longer_stop(seconds)
