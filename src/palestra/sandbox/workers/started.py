"""Nursery processes that run: ended after use, or kept for the next keeper that needs the same.

A nursery imports for a second what it forks in milliseconds. A fleet starts it once; tests make
the same server again for each of their assertions, so theirs is kept (`nurseries_kept`).
"""

import atexit
import contextlib
import socket
import subprocess
import threading
from collections.abc import Hashable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, Final, final

END_LIMIT_S: Final = 5.0
MOST_KEPT: Final = 4
"""A nursery holds the memory of its imports: 80 MB and more."""


@final
@dataclass(frozen=True, slots=True)
class StartedNursery:
    """A nursery process, and what its keeper holds of it."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    complaints: IO[bytes]
    """What it prints before it is ready."""

    def end(self) -> None:
        """End it, and with it every worker. Blocks for moments."""
        self.control.close()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()


@final
class NurseryStock:
    """Nurseries that nobody uses now, by what they were made of; the longest unused goes first.

    Any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nurseries: dict[Hashable, StartedNursery] = {}
        self.unlike: frozenset[str] = frozenset()
        """Environment variables that may differ: they make no other nursery."""

    def take(self, made_of: Hashable) -> StartedNursery | None:
        """One that was made of the same and still runs."""
        with self._lock:
            nursery = self._nurseries.pop(made_of, None)
        if nursery is not None and nursery.process.poll() is not None:
            nursery.end()
            return None
        return nursery

    def put(self, made_of: Hashable, nursery: StartedNursery) -> None:
        """Keep one that has no workers any more."""
        surplus = []
        with self._lock:
            if (twin := self._nurseries.pop(made_of, None)) is not None:
                surplus.append(twin)
            self._nurseries[made_of] = nursery
            while len(self._nurseries) > MOST_KEPT:
                surplus.append(self._nurseries.pop(next(iter(self._nurseries))))
        for unused in surplus:
            unused.end()

    def end(self) -> None:
        """End them all."""
        with self._lock:
            nurseries, self._nurseries = self._nurseries, {}
        for nursery in nurseries.values():
            nursery.end()


_KEPT: Final = NurseryStock()
atexit.register(_KEPT.end)
_stock: ContextVar[NurseryStock | None] = ContextVar("palestra_nursery_stock", default=None)


@contextlib.contextmanager
def nurseries_kept(*unlike: str) -> Iterator[None]:
    """Keepers made in the body keep their nurseries for each other, until this process ends.

    `unlike`: environment variables in which these may differ.
    """
    _KEPT.unlike |= frozenset(unlike)
    token = _stock.set(_KEPT)
    try:
        yield
    finally:
        _stock.reset(token)


def stock_here() -> NurseryStock | None:
    """Where keepers made now leave their nurseries; None where they end them."""
    return _stock.get()
