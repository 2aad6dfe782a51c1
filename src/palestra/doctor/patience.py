"""Call an endpoint once: wait for a slow one, but give up early on one that refuses.

The client repeats a call while an endpoint is busy or unreachable, as in a rollout. Before a run it
is enough to know why.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from palestra.errors import DeadlineExceeded
from palestra.transport import PLAN, Activity, CallContext, calling

T = TypeVar("T")

PATIENCE_S: Final = 5.0
"""Seconds of retries for an endpoint that refuses or is busy."""
_LOOK_EVERY_S: Final = 0.5
_RETRYING: Final = "retrying"
_AS: Final = "another try, as "
_LET_GO_S: Final = 1.0


async def asked_once(ask: Callable[[], Coroutine[Any, Any, T]], *, within_s: float) -> T:
    """Return the result of `ask`.

    Raises the CallError of `ask`. Raises DeadlineExceeded, with the reason for the retries: the
    endpoint still refuses after `PATIENCE_S`.
    """
    began = time.monotonic()
    activity = Activity()
    with calling(CallContext(deadline=began + within_s, activity=activity)):
        asking = asyncio.ensure_future(ask())
    try:
        while not asking.done():
            await asyncio.wait({asking}, timeout=_LOOK_EVERY_S)
            impatient = time.monotonic() - began > PATIENCE_S
            if impatient and activity.phase == _RETRYING and not asking.done():
                why = activity.awaiting.removeprefix(_AS).partition(PLAN)[0]
                raise DeadlineExceeded(f"{why}; the doctor tried for {PATIENCE_S:g} s")
        return await asking
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=_LET_GO_S)
