"""Retries of network errors, and their time limits."""

import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, TypeVar

from palestra.errors import InfraError

T = TypeVar("T")

LONGEST_PAUSE_S: Final = 15.0
UNRESOLVED_S: Final = 30.0
"""The longest time in seconds of retries while the host's name cannot be resolved, unless the user
set the deadline: usually this machine is offline, or the name is wrong."""
_AGAIN: Final = "run the same command again: it continues where this one stopped"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why an attempt failed although a retry may succeed."""

    said: str
    retry_after_s: float | None = None
    """The wait in seconds that the server requested; None without a request."""


@dataclass(frozen=True, slots=True)
class TransferPatience:
    """Retries with growing pauses until errors have lasted `deadline_s` without progress, or
    `UNRESOLVED_S` with no other error than that the host's name cannot be resolved.

    Transferred bytes reset the time, so a slow connection that breaks now and then still finishes
    the file.
    """

    deadline_s: float = 120.0
    first_pause_s: float = 0.5
    answer_timeout_s: float = 60.0
    """The timeout in seconds for a connection that sends nothing."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    is_chosen: bool = False
    """Whether the user set `deadline_s`: it then holds for names that cannot be resolved, too."""
    setting: str = ""
    """The setting of `deadline_s`, for messages; empty when the user cannot change it."""
    tell: Callable[[str], None] | None = None
    """Receives a message at the first failure, with the time left for retries."""

    def insist(
        self,
        what: str,
        attempt: Callable[[], T],
        trouble: Callable[[Exception], Trouble | None],
        *,
        moved: Callable[[], int] = lambda: 0,
    ) -> T:
        """Call `attempt` until it succeeds, and return its result.

        `trouble`: returns why a retry may help after an exception, or None; then the exception is
        raised unchanged. `moved`: returns the number of bytes transferred. Raises InfraError: the
        deadline passed.
        """
        tries, since, pause, before = 0, self.clock(), self.first_pause_s, moved()
        unresolved_since = inf
        while True:
            tries += 1
            try:
                return attempt()
            except Exception as error:
                trouble_met = trouble(error)
                if trouble_met is None:
                    raise
                if moved() > before:
                    tries, since, pause, before = 1, self.clock(), self.first_pause_s, moved()
                    unresolved_since = inf
                wait = max(pause * random.uniform(0.5, 1.0), trouble_met.retry_after_s or 0.0)
                now = self.clock()
                is_unresolved = _is_unresolved(error)
                unresolved_since = min(unresolved_since, now) if is_unresolved else inf
                ends_at = since + self.deadline_s
                if not self.is_chosen:
                    ends_at = min(ends_at, unresolved_since + UNRESOLVED_S)
                if now + wait > ends_at:
                    failure = _given_up(
                        what,
                        trouble_met,
                        tries,
                        now - since,
                        retry_after_s=trouble_met.retry_after_s,
                        hint=self._hint(is_unresolved=is_unresolved),
                    )
                else:
                    failure = None
            if failure is not None:
                # Out here, so that the foreign error, which may quote a header, is no cause.
                raise failure
            if tries == 1 and self.tell is not None:
                left_s = ends_at - now
                self.tell(f"{what}: {trouble_met.said}; trying again for {left_s:.0f} s at most …")
            self.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _hint(self, *, is_unresolved: bool) -> str:
        if is_unresolved:
            return f"check this machine's network and the name of the host; then {_AGAIN}"
        return _AGAIN + (f"; {self.setting} sets how long it tries" if self.setting else "")


def _is_unresolved(error: BaseException | None) -> bool:
    """Whether an error comes from a host name that cannot be resolved."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return True
        error = error.__cause__ or error.__context__
    return False


def _given_up(
    what: str,
    failure: Trouble,
    tries: int,
    elapsed_s: float,
    *,
    retry_after_s: float | None,
    hint: str,
) -> InfraError:
    later = f" (it asks to wait {retry_after_s:.0f} s)" if retry_after_s else ""
    times = "1 try" if tries == 1 else f"{tries} tries"
    return InfraError(
        f"{what}: {failure.said}{later}; gave up after {times} in {elapsed_s:.0f} s",
        hint=hint,
    )
