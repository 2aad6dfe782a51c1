"""What every call carries: the rollout it is for and the moment by which it must be done.

Both travel in a context variable inside a process and in two headers between processes, so
that code which never heard of them (a user's own agent) passes them on all the same.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from palestra.errors import RowIdentity


def new_id(prefix: str = "") -> str:
    """`prefix` and 32 hexadecimal digits.

    From the system, never from `random`: environments seed that one, and two rollouts with the
    same session would share their state.
    """
    return prefix + os.urandom(16).hex()


ROLLOUT_HEADER = "x-palestra-rollout"
TIMEOUT_HEADER = "x-palestra-timeout"
CALL_LIMIT_HEADER = "x-palestra-call-limit"
PATIENCE_HEADER = "x-palestra-patience"
ENVIRONMENT_HEADER = "x-palestra-environment"
WRITTEN_HEADER = "x-palestra-written-turns"

SHARE_KEPT = 0.1
MOST_KEPT_S = 0.5


@dataclass(slots=True)
class Activity:
    """What one rollout is doing right now, for the live view and for timeouts.

    The one object here that changes: only the rollout's own calls write it.
    """

    phase: str = "queued"
    awaiting: str = ""
    since: float = field(default_factory=time.monotonic)
    """`time.monotonic()` of the last change."""
    verify_request: Any = field(default=None, repr=False)
    """What `/verify` was asked last: what the model has answered outlives a failure after it."""

    def now(self, phase: str, awaiting: str) -> None:
        """Note that the rollout entered `phase` and waits for `awaiting`."""
        self.phase = phase
        self.awaiting = awaiting
        self.since = time.monotonic()

    def describe(self) -> str:
        """For a message: what is awaited, and for how long already."""
        waited = time.monotonic() - self.since
        return f"{self.awaiting or self.phase} for {waited:.1f} s"


# A struct, not a dataclass: a frozen dataclass takes ten times as long to make.
class CallContext(msgspec.Struct, frozen=True):
    """The rollout a call belongs to. `deadline` is a `time.monotonic()` value."""

    row: RowIdentity | None = None
    deadline: float | None = None
    activity: Activity | None = None
    call_limit_s: float | None = None
    """Seconds that each call made for the rollout may take; `/run` itself is not one of them."""
    in_environment: bool = False
    """Whether an environment is being called, so that a model it asks is a judge of the rollout
    and not its policy."""
    written_turns: int = 0
    """How many turns of a model the row itself brings: what goes beyond them was generated."""

    patience_s: float | None = None
    """Seconds for which a model endpoint may refuse everything before the run stops; None: any."""

    def remaining_s(self) -> float | None:
        """Seconds left, never negative; None when there is no deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def inside_environment(self) -> "CallContext":
        """The same, for what an environment does."""
        return self if self.in_environment else replace(self, in_environment=True)


_NOWHERE = CallContext()
_current: ContextVar[CallContext] = ContextVar("palestra_call", default=_NOWHERE)


def current_call() -> CallContext:
    """The context of the call being served; an empty one outside of any rollout."""
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
    """Run the body on behalf of `context`."""
    return _Calling(context)


def context_headers(context: CallContext) -> dict[str, str]:
    """The headers that carry `context` to another process."""
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
    if context.written_turns:
        headers[WRITTEN_HEADER] = str(context.written_turns)
    return headers


def _for_the_callee(remaining_s: float) -> float:
    """What the callee may take of the time left: a little less than all of it.

    So the innermost server is the first to give up, and the ones around it still have the time
    to hear from it what was awaited.
    """
    return remaining_s - min(MOST_KEPT_S, remaining_s * SHARE_KEPT)


def context_from_headers(headers: Mapping[str, str]) -> CallContext:
    """Rebuild a context from a request's headers; what cannot be read is taken as absent."""
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
