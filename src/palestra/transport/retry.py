"""Retries: exponential back-off with full jitter, inside the rollout's deadline.

The caller decides which requests may be retried. A request that was never sent is always safe. A
request that the server may have processed is repeated only if the caller marks it as stateless: a
model call is stateless, a tool call is not.

Source of the back-off: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import orjson

from palestra.errors import CallError, DeadlineExceeded
from palestra.transport.context import current_call
from palestra.transport.http import ConnectionFailed, HttpReply
from palestra.transport.patience import Patience

logger = logging.getLogger("palestra.transport")

BUSY_STATUSES = frozenset({429, 502, 503, 504, 520})
"""Statuses of an endpoint that is overloaded or restarting, so a retry may succeed."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long and how often to retry. `give_up_after_s` limits a call that has no deadline."""

    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    give_up_after_s: float = 600.0
    busy: frozenset[int] = BUSY_STATUSES
    server_errors: int = 3
    """The number of answers with status 500 after which there is no retry: they are often
    permanent."""


WITHIN_FLEET = RetryPolicy(busy=frozenset(), server_errors=1, give_up_after_s=20)
"""The policy between the fleet's own servers: only a lost connection is retried, because the server
that calls the outside has already retried the rest."""


PLAN = " (waiting: "
"""Separates the reason and the plan in the text of what is awaited."""

_SHOWN_IN_TENTHS_S = 10.0
REPORT_EVERY_S = 2.0
"""The pause in seconds between two questions about the retries of another process."""
REPORT_VALID_S = 1.5 * REPORT_EVERY_S
"""How long in seconds the plan of another process is shown after its report."""

SLIVER_S = 1.0
"""A later try that the deadline ends within this many seconds says less about an endpoint than the
earlier error does."""


@dataclass(frozen=True, slots=True)
class RetryReport:
    """The requests that another process has sent again since its start."""

    count: int
    reason: str
    """Why the last one was sent again."""
    plan: str
    """When the next one is due; empty when no request waits."""

    @classmethod
    def from_status(cls, body: bytes) -> "RetryReport | None":
        """Return the report in a server's answer to `GET /`; None before its first retry."""
        try:
            fields = orjson.loads(body)["retries"]
            return cls(int(fields["count"]), str(fields["reason"]), str(fields["plan"]))
        except (LookupError, TypeError, ValueError):
            return None

    def __str__(self) -> str:
        count = "1 request retried" if self.count == 1 else f"{self.count} requests retried"
        return f"{count}: {self.reason}" + (f"; {self.plan}" if self.plan else "")


@dataclass(slots=True)
class RetryCount:
    """The number of requests that were sent again, for the summary at the end: by this process, and
    by the servers in other processes that it hears of.
    """

    retries: int = 0
    last_reason: str = ""
    last_notice: float = field(default=0.0)
    _plan: str = ""
    _plan_ends: float = 0.0
    _counts: dict[str, int] = field(default_factory=dict)

    def again(self, reason: str, pause_s: float, end: str) -> str:
        """Count a request that is sent again after a pause. Return the plan: the next try, and `end`,
        which says when there are no more.
        """
        self.retries += 1
        self.last_reason = reason
        self._plan = plan_text(pause_s, end)
        self._plan_ends = time.monotonic() + pause_s
        return self._plan

    @contextlib.contextmanager
    def waiting(self, plan: str) -> Iterator[None]:
        """Forget the plan when the body is cancelled: its caller has gone, so nothing is sent."""
        try:
            yield
        except asyncio.CancelledError:
            if plan == self._plan:
                self._plan_ends = 0.0
            raise

    def plan_at(self, now: float) -> str:
        """Return the plan of the latest retry; "" once its pause is over."""
        return self._plan if now < self._plan_ends else ""

    def report(self) -> RetryReport:
        """Return what another process is to know of this count."""
        return RetryReport(self.retries, self.last_reason, self.plan_at(time.monotonic()))

    def add_report(self, source: str, report: RetryReport) -> None:
        """Count the requests that the process `source` has sent again since its previous report. Its
        first report is of an earlier time and only tells what waits now.
        """
        before = self._counts.get(source, report.count)
        self._counts[source] = report.count
        # Fewer than before: the process was started anew.
        new = report.count - before if report.count >= before else report.count
        self.retries += new
        if new or report.plan:
            self.last_reason = report.reason
        if report.plan:
            self._plan, self._plan_ends = report.plan, time.monotonic() + REPORT_VALID_S


async def with_retries(
    send: Callable[[float | None], Awaitable[HttpReply]],
    *,
    what: str,
    stateless: bool,
    policy: RetryPolicy,
    count: RetryCount,
    words: Callable[[bytes], str] = lambda _: "",
    patience: Patience | None = None,
) -> HttpReply:
    """Send the request until a usable answer comes, and return it.

    `send`: gets the seconds left. `words`: returns the text of a busy answer, for messages: a
    used-up quota is a 429 too, and waiting does not refill it. `patience`: the patience of the run;
    `send` records each try in it. Raises the error of the last try that had enough time,
    `DeadlineExceeded` with the reason of the retries, or `EndpointRefuses`.
    """
    context = current_call()
    started = time.monotonic()
    wait_s = policy.first_wait_s
    server_errors = tries = 0
    failure: CallError | None = None
    while True:
        tries += 1
        reply: HttpReply | None = None
        asked_wait: float | None = None
        try:
            left_s = context.remaining_s()
            reply = await (send(left_s) if failure is None else _tried(send, left_s, failure))
        except ConnectionFailed as error:
            if error.was_sent and not stateless:
                raise
            failure, reason = error, error.message
        else:
            server_errors += reply.status == 500
            repeatable = stateless and (
                reply.status in policy.busy
                or (reply.status == 500 and server_errors < policy.server_errors)
            )
            if not repeatable:
                return reply
            reason = _answer_text(what, reply, words)
            failure = DeadlineExceeded(f"{reason}; the deadline leaves no time for another try")
            asked_wait = retry_after_s(reply)
        # Never sooner than asked, and never at once: "Retry-After: 0" is no leave to hammer.
        pause = max(asked_wait or 0.0, random.uniform(0.5, 1.0) * wait_s)
        left_s = context.remaining_s()
        late = left_s is not None and left_s <= pause
        if late or time.monotonic() - started + pause > policy.give_up_after_s:
            # An endpoint that asks for more patience than anybody has is busy, which is no timeout.
            if reply is None or late:
                raise _with_tries(failure, tries)
            return reply
        if patience is not None:
            patience.check(reason)
        plan = count.again(reason, pause, _end(reply, policy, started, left_s, patience))
        await _wait(plan, count, pause, reason, patience)
        wait_s = min(policy.longest_wait_s, wait_s * 2)


def _answer_text(what: str, reply: HttpReply, words: Callable[[bytes], str]) -> str:
    """Return what answered, the status, and what the answer says of itself."""
    provider_words = words(reply.body)
    return f"{what} answered {reply.status}" + (f" ({provider_words})" if provider_words else "")


async def _wait(
    plan: str, count: RetryCount, pause_s: float, reason: str, patience: Patience | None
) -> None:
    """Wait for the next try, as `plan` says, and report it. Raises EndpointRefuses: the patience of the
    run has ended.
    """
    _notice(count, plan)
    activity = current_call().activity
    if activity is not None:
        activity.now("retrying", f"another try, as {reason}{PLAN}{plan})")
    with count.waiting(plan):
        await _pause(pause_s, reason, patience)


def _with_tries(failure: CallError, tries: int) -> CallError:
    """Return the error with the number of requests that were sent, when it is more than one."""
    if tries > 1:
        failure.message = f"{failure.message} (after {tries} tries)"
        failure.args = (failure.message,)
    return failure


def _end(
    reply: HttpReply | None,
    policy: RetryPolicy,
    started: float,
    left_s: float | None,
    patience: Patience | None,
) -> str:
    """Return when retrying stops: `giving up at 14:03:10` in this machine's local time, by the limit
    that comes first, and after how many answers of status 500. `reply`: the last answer, if any.
    """
    patience_s = None if patience is None else patience.shortest_s
    own_s = policy.give_up_after_s - (time.monotonic() - started)
    ends_in_s = min(end_s for end_s in (own_s, left_s, patience_s) if end_s is not None)
    ends_at = time.strftime("%H:%M:%S", time.localtime(time.time() + ends_in_s))
    if reply is not None and reply.status == 500:
        return f"giving up after {policy.server_errors} answers of 500, at {ends_at} at the latest"
    return f"giving up at {ends_at}"


def plan_text(pause_s: float, end: str) -> str:
    """Return `next try in 28 s, giving up at 14:03:10`. `end`: the text after the comma."""
    pause = f"{pause_s:.1f}" if pause_s < _SHOWN_IN_TENTHS_S else f"{pause_s:.0f}"
    return f"next try in {pause} s, {end}"


async def _pause(pause_s: float, reason: str, patience: Patience | None) -> None:
    """Wait before the next try. Raises EndpointRefuses: the run's patience ends before that."""
    if patience is not None and (left_s := patience.left_s) is not None and left_s < pause_s:
        await asyncio.sleep(left_s)
        patience.check(reason)
        pause_s -= left_s
    await asyncio.sleep(pause_s)


async def _tried(
    send: Callable[[float | None], Awaitable[HttpReply]],
    left_s: float | None,
    before: CallError,
) -> HttpReply:
    """Make a later try. If the deadline leaves it less than `SLIVER_S`, raise the earlier error
    `before`.
    """
    began = time.monotonic()
    try:
        return await send(left_s)
    except DeadlineExceeded as error:
        if time.monotonic() - began > SLIVER_S:
            raise
        raise before from error


def _notice(count: RetryCount, plan: str) -> None:
    now = time.monotonic()
    # The first one is said at once; under load one line per few seconds is enough.
    if count.retries == 1 or now - count.last_notice > 5.0:
        count.last_notice = now
        tries = "1 retry" if count.retries == 1 else f"{count.retries} retries"
        logger.warning("%s; %s (%s so far)", count.last_reason, plan, tries)


def retry_after_s(reply: HttpReply) -> float | None:
    """Return the seconds in the Retry-After header; None when it is missing or invalid.

    HTTP also allows a date, which is compared with this machine's clock.
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
