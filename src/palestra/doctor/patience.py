"""Asking an endpoint once: one that is slow gets its time, one that refuses is not asked for long.

A call is repeated inside while an endpoint is busy or not there, as a rollout would have it. Before
a run it is enough to know why.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from palestra.errors import DeadlineExceeded
from palestra.transport import PLAN, Activity, CallContext, calling

T = TypeVar("T")

PATIENCE_S: Final = 5.0
"""For an endpoint that refuses, or says that it is busy."""
_LOOK_EVERY_S: Final = 0.5
_RETRYING: Final = "retrying"
_AS: Final = "another try, as "
_LET_GO_S: Final = 1.0


async def asked_once(ask: Callable[[], Coroutine[Any, Any, T]], *, within_s: float) -> T:
    """What `ask` answers. Raises its CallError, or DeadlineExceeded with why it was repeated."""
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
                raise DeadlineExceeded(f"{why}; it was asked for {PATIENCE_S:g} s")
        return await asking
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=_LET_GO_S)
