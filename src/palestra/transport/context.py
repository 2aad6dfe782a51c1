"""The context of every call: the rollout that it belongs to, and the deadline.

Inside a process the context is in a context variable; between processes it is in headers. So code
without support for it (a user's own agent) passes it on too.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, final

import msgspec
import orjson
from msgspec.structs import replace

from palestra.errors import RowIdentity


def new_id(prefix: str = "") -> str:
    """Return `prefix` and 32 hexadecimal digits.

    The digits come from the system, never from `random`: environments seed `random`, and two
    rollouts with the same session id would share their state.
    """
    return prefix + os.urandom(16).hex()


ROLLOUT_HEADER = "x-palestra-rollout"
TIMEOUT_HEADER = "x-palestra-timeout"
CALL_LIMIT_HEADER = "x-palestra-call-limit"
PATIENCE_HEADER = "x-palestra-patience"
ENVIRONMENT_HEADER = "x-palestra-environment"
WRITTEN_HEADER = "x-palestra-written-turns"
ROLLOUT_ID_HEADER = "x-palestra-rollout-id"

SHARE_KEPT = 0.1
MOST_KEPT_S = 0.5


@dataclass(slots=True)
class Activity:
    """What one rollout is doing right now, for the live view and for timeout messages.

    The only mutable object in this module. Only the rollout's own calls change it.
    """

    phase: str = "queued"
    awaiting: str = ""
    since: float = field(default_factory=time.monotonic)
    """`time.monotonic()` of the last change."""
    verify_request: Any = field(default=None, repr=False)
    """The last request to `/verify`, kept so that a later failure does not lose the model's answer.
    """
    tool_failures: list[Any] = field(default_factory=list, repr=False)
    """The failed tool calls in the last answer of `/verify`, kept because an author's agent may drop
    them."""
    agent_faults: list[Any] = field(default_factory=list, repr=False)
    """The calls of an environment that an author's agent did wrong, in the form of `tool_failures`:
    they were refused, or were outside of the session."""
    awaited_calls: "list[AwaitedCall]" = field(default_factory=list, repr=False)
    """The calls that have not ended, in the order in which they began."""
    before_failed_call: tuple[str, str] | None = field(default=None, repr=False)
    """What was shown before the failed call that is still shown; None when none is."""

    def now(self, phase: str, awaiting: str) -> None:
        """Record that the rollout has entered `phase` and waits for `awaiting`."""
        self.phase = phase
        self.awaiting = awaiting
        self.since = time.monotonic()

    def describe(self) -> str:
        """Return a text for messages: what the rollout awaits, and for how long."""
        waited = time.monotonic() - self.since
        return f"{self.awaiting or self.phase} for {waited:.1f} s"


@final
class AwaitedCall:
    """A `with` block in which a rollout awaits one call. `activity`: None outside of a rollout; then
    nothing is shown.

    After the block, the activity shows again what it showed before: the caller's code, or another
    call that is still awaited. After an exception it still shows the call, which is the last thing
    that was awaited and so the cause of a timeout, until the next call.
    """

    __slots__ = ("_activity", "_awaiting", "_phase", "before")

    def __init__(self, activity: Activity | None, phase: str, awaiting: str) -> None:
        self._activity = activity
        self._phase = phase
        self._awaiting = awaiting
        self.before = "", ""
        """What the activity showed when the call began."""

    def __enter__(self) -> None:
        activity = self._activity
        if activity is None:
            return
        # A call that failed is awaited no more: what was shown before it is shown after this one.
        self.before = activity.before_failed_call or (activity.phase, activity.awaiting)
        activity.before_failed_call = None
        activity.awaited_calls.append(self)
        activity.now(self._phase, self._awaiting)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        activity = self._activity
        if activity is None:
            return
        at = activity.awaited_calls.index(self)
        del activity.awaited_calls[at]
        if at < len(activity.awaited_calls):  # a later one is awaited, and stays shown
            activity.awaited_calls[at].before = self.before
        elif kind is None:
            activity.before_failed_call = None
            activity.now(*self.before)
        else:
            activity.before_failed_call = self.before


# A struct, not a dataclass: a frozen dataclass takes ten times as long to make.
class CallContext(msgspec.Struct, frozen=True):
    """The context of a call: its rollout and limits. `deadline` is a `time.monotonic()` value."""

    row: RowIdentity | None = None
    deadline: float | None = None
    activity: Activity | None = None
    call_limit_s: float | None = None
    """The timeout in seconds of each call made for the rollout; it does not apply to `/run` itself.
    """
    in_environment: bool = False
    """Whether the call is made inside an environment, so that a model that it calls is a judge and
    not the policy."""
    written_turns: int = 0
    """The number of the model's turns that the row itself contains. Turns beyond them were
    generated."""

    rollout_id: str = ""
    """The id that the row's author chose for the rollout; empty: it is made of the row's indices."""
    patience_s: float | None = None
    """Seconds for which a model endpoint may refuse all requests before the run stops; None: no
    limit."""

    def remaining_s(self) -> float | None:
        """Return the seconds left, never negative; None when there is no deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def inside_environment(self) -> "CallContext":
        """Return the same context, marked as inside an environment."""
        return self if self.in_environment else replace(self, in_environment=True)


_NOWHERE = CallContext()
_current: ContextVar[CallContext] = ContextVar("palestra_call", default=_NOWHERE)


def current_call() -> CallContext:
    """Return the context of the current call; an empty one outside of any rollout."""
    return _current.get()


class _Calling:
    # Not a generator: it is entered some times per rollout, and that takes four times as long.
    __slots__ = ("_context", "_token")

    def __init__(self, context: CallContext) -> None:
        self._context = context

    def __enter__(self) -> CallContext:
        self._token = _current.set(self._context)
        return self._context

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def calling(context: CallContext) -> AbstractContextManager[CallContext]:
    """Run the `with` block in `context`."""
    return _Calling(context)


def context_headers(context: CallContext) -> dict[str, str]:
    """Return the headers that send `context` to another process."""
    headers: dict[str, str] = {}
    row = context.row
    if row is not None:
        # ASCII, whatever the names: a header has no other encoding that all parties agree on.
        headers[ROLLOUT_HEADER] = json.dumps(
            [row.run, row.task, row.rollout, row.attempt, row.agent]
        )
    remaining = context.remaining_s()
    if remaining is not None:
        headers[TIMEOUT_HEADER] = f"{_for_the_callee(remaining):.3f}"
    if context.call_limit_s is not None:
        headers[CALL_LIMIT_HEADER] = f"{context.call_limit_s:.3f}"
    if context.patience_s is not None:
        headers[PATIENCE_HEADER] = f"{context.patience_s:g}"
    if context.in_environment:
        headers[ENVIRONMENT_HEADER] = "1"
    if context.rollout_id:
        headers[ROLLOUT_ID_HEADER] = context.rollout_id
    if context.written_turns:
        headers[WRITTEN_HEADER] = str(context.written_turns)
    return headers


def _for_the_callee(remaining_s: float) -> float:
    """Return how much of the remaining time the called server gets: a little less than all.

    So the innermost server times out first, and the servers around it can still receive its message
    about what was awaited.
    """
    return remaining_s - min(MOST_KEPT_S, remaining_s * SHARE_KEPT)


def context_from_headers(headers: Mapping[str, str]) -> CallContext:
    """Build a context from a request's headers. Invalid headers are ignored."""
    row = None
    if (raw := headers.get(ROLLOUT_HEADER)) is not None:
        try:
            run, task, rollout, attempt, agent = orjson.loads(raw)
            row = RowIdentity(task=task, rollout=rollout, attempt=attempt, agent=agent, run=run)
        except (ValueError, TypeError):
            row = None
    seconds = _seconds(headers.get(TIMEOUT_HEADER))
    return CallContext(
        row=row,
        deadline=None if seconds is None else time.monotonic() + seconds,
        call_limit_s=_seconds(headers.get(CALL_LIMIT_HEADER)),
        in_environment=ENVIRONMENT_HEADER in headers,
        rollout_id=headers.get(ROLLOUT_ID_HEADER, ""),
        written_turns=int(written)
        if (written := headers.get(WRITTEN_HEADER, "")).isdecimal()
        else 0,
        patience_s=_seconds(headers.get(PATIENCE_HEADER)),
    )


def _seconds(raw: str | None) -> float | None:
    try:
        seconds = math.nan if raw is None else float(raw)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
