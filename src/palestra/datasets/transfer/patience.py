"""How long trouble of the network is put up with."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from palestra.errors import InfraError

T = TypeVar("T")

LONGEST_PAUSE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a try failed in a way in which the next one may not."""

    said: str
    retry_after_s: float | None = None
    """How long the other side asks us to wait, when it does."""


@dataclass(frozen=True, slots=True)
class TransferPatience:
    """Tries again, with growing pauses, until the trouble has lasted `deadline_s`.

    Bytes that move end a trouble: a slow line that breaks now and then gets its file over.
    """

    deadline_s: float = 120.0
    first_pause_s: float = 0.5
    answer_timeout_s: float = 60.0
    """How long one silent connection is waited for."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    tell: Callable[[str], None] | None = None
    """Hears of a trouble when it begins, with the time that is left."""

    def insist(
        self,
        what: str,
        attempt: Callable[[], T],
        trouble: Callable[[Exception], Trouble | None],
        *,
        moved: Callable[[], int] = lambda: 0,
    ) -> T:
        """What `attempt` gives in the end.

        `trouble` says of an exception why another try may help, or None: then it is raised as it
        is. `moved` counts bytes. Raises InfraError when the deadline has passed.
        """
        tries, since, pause, before = 0, self.clock(), self.first_pause_s, moved()
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
                wait = max(pause * random.uniform(0.5, 1.0), trouble_met.retry_after_s or 0.0)
                elapsed = self.clock() - since
                if elapsed + wait > self.deadline_s:
                    failure = _given_up(
                        what, trouble_met, tries, elapsed, retry_after_s=trouble_met.retry_after_s
                    )
                else:
                    failure = None
            if failure is not None:
                # Out here, so that the foreign error, which may quote a header, is no cause.
                raise failure
            if tries == 1 and self.tell is not None:
                left_s = self.deadline_s - elapsed
                self.tell(f"{what}: {trouble_met.said}; trying again for {left_s:.0f} s at most …")
            self.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_S)


def _given_up(
    what: str, failure: Trouble, tries: int, elapsed_s: float, *, retry_after_s: float | None
) -> InfraError:
    later = f" (it asks to be left alone for {retry_after_s:.0f} s)" if retry_after_s else ""
    times = "1 try" if tries == 1 else f"{tries} tries"
    return InfraError(
        f"{what}: {failure.said}{later}; gave up after {times} in {elapsed_s:.0f} s",
        hint="the same command goes on where this one stopped; network_deadline_s is how long it "
        "tries",
    )
