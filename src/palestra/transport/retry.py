"""Trying again: exponential back-off with full jitter, inside the rollout's deadline.

What may be tried again is the caller's knowledge. A request that never left is always safe; one
that may have been acted on is repeated only when the caller says that it is stateless, as a
model call is and a tool call is not.

Source of the back-off: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from palestra.errors import CallError, DeadlineExceeded
from palestra.transport.context import current_call
from palestra.transport.http import ConnectionFailed, HttpReply

logger = logging.getLogger("palestra.transport")

BUSY_STATUSES = frozenset({429, 502, 503, 504, 520})
"""The endpoint is overloaded or restarting: worth waiting for."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long and how often to try. `give_up_after_s` bounds a call that has no deadline."""

    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    give_up_after_s: float = 600.0
    busy: frozenset[int] = BUSY_STATUSES
    server_errors: int = 3
    """How many answers of status 500 are tolerated: they are often not transient."""


WITHIN_FLEET = RetryPolicy(busy=frozenset(), server_errors=1, give_up_after_s=20)
"""Between our own servers only a lost connection is tried again: the server that talks to the
outside has already retried what was worth retrying."""


SLIVER_S = 1.0
"""A later try that the deadline ends within this says less of an endpoint than the one before."""


@dataclass(slots=True)
class RetryCount:
    """How many requests were sent again, for the accounting at the end."""

    retries: int = 0
    last_reason: str = ""
    last_notice: float = field(default=0.0)


async def with_retries(
    send: Callable[[float | None], Awaitable[HttpReply]],
    *,
    what: str,
    stateless: bool,
    policy: RetryPolicy,
    count: RetryCount,
    words: Callable[[bytes], str] = lambda _: "",
) -> HttpReply:
    """Send until an answer comes that is worth having, and return it.

    `send` gets the seconds left. `words` is what the body of a busy answer says, to be shown:
    a quota that is used up is a 429 as well, and waiting does not fill it. Raises what the last try
    raised that had time for more, or `DeadlineExceeded` naming the reason of the retries.
    """
    context = current_call()
    started = time.monotonic()
    wait_s = policy.first_wait_s
    server_errors = 0
    failure: CallError | None = None
    while True:
        reply: HttpReply | None = None
        asked_wait: float | None = None
        try:
            left = context.remaining_s()
            reply = await (send(left) if failure is None else _tried(send, left, failure))
        except ConnectionFailed as error:
            if error.sent and not stateless:
                raise
            failure, reason = error, error.message
        else:
            server_errors += reply.status == 500
            again = stateless and (
                reply.status in policy.busy
                or (reply.status == 500 and server_errors < policy.server_errors)
            )
            if not again:
                return reply
            said = words(reply.body)
            reason = f"{what} answered {reply.status}" + (f" ({said})" if said else "")
            failure = DeadlineExceeded(f"{reason}; the deadline leaves no time for another try")
            asked_wait = retry_after_s(reply)
        # Never sooner than asked, and never at once: "Retry-After: 0" is no leave to hammer.
        pause = max(asked_wait or 0.0, random.uniform(0.5, 1.0) * wait_s)
        left = context.remaining_s()
        late = left is not None and left <= pause
        if late or time.monotonic() - started + pause > policy.give_up_after_s:
            # An endpoint that asks for more patience than anybody has is busy, which is no timeout.
            if reply is None or late:
                raise failure
            return reply
        _notice(count, reason, pause)
        if context.activity is not None:
            context.activity.now("retrying", f"another try, as {reason}")
        await asyncio.sleep(pause)
        wait_s = min(policy.longest_wait_s, wait_s * 2)


async def _tried(
    send: Callable[[float | None], Awaitable[HttpReply]],
    left_s: float | None,
    before: CallError,
) -> HttpReply:
    """A later try; what failed `before` is raised when the deadline leaves it but a sliver."""
    began = time.monotonic()
    try:
        return await send(left_s)
    except DeadlineExceeded as error:
        if time.monotonic() - began > SLIVER_S:
            raise
        raise before from error


def _notice(count: RetryCount, reason: str, pause: float) -> None:
    count.retries += 1
    count.last_reason = reason
    now = time.monotonic()
    # The first one is said at once; under load one line per few seconds is enough.
    if count.retries == 1 or now - count.last_notice > 5.0:
        count.last_notice = now
        logger.warning(
            "%s; trying again in %.1f s (%d retries so far)", reason, pause, count.retries
        )


def retry_after_s(reply: HttpReply) -> float | None:
    """How long the Retry-After header asks to wait, in seconds; None when it does not say.

    A date, which HTTP allows too, is counted from our own clock.
    """
    raw = reply.headers.get("retry-after", "")
    try:
        return max(0.0, float(raw))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(raw).timestamp() - time.time())
    except ValueError:
        return None
