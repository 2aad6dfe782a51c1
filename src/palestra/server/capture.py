"""Keeps the turns that a model server generated for the trainer that started the rollout.

A trainer opens a run. From then on, each model call for one of its rollouts is kept with its token
ids and weight version, until the trainer takes the rollout's turns. So the trainer gets the ids
even if an agent drops them, and both weight versions if the weights change during a call.

While a trainer changes the weights it may hold its run: no call of the run's rollouts begins then.

A call belongs to the rollout that its headers name, or that its path names (`/ng-rollout/<id>/`). A
path contains no run, so the call then belongs to the only open run.
"""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Self, TypeVar, final

import msgspec
from pydantic import BaseModel

from palestra.errors import RowIdentity
from palestra.schema import (
    ChatCompletion,
    JsonObject,
    Response,
    TokenVerdict,
    TurnTokens,
    WireModel,
    is_models_own,
    tokens_on,
)
from palestra.transport import CallContext, current_call

logger = logging.getLogger("palestra.server")

Answer = TypeVar("Answer")

MOST_IDS: Final = 32_000_000
"""The largest number of token ids kept for rollouts that nobody has taken: about 1 GiB. Beyond it
the oldest are forgotten."""

TRAINING_RUN: Final = "/training/run"
TRAINING_TURNS: Final = "/training/turns"

Rollout = tuple[str, int | str | None, int | None, int]
"""The key of a rollout: run, task, rollout, attempt."""


class CapturedTurn(msgspec.Struct):
    """One captured call of the model."""

    began: float
    """Start time, in seconds since the epoch."""
    took_s: float
    tokens: TurnTokens | None = None
    """The token ids; None when the endpoint returned none."""
    verdict: TokenVerdict | None = None
    """The verdict on `tokens`; None when there are no tokens or they were not checked."""
    weights_start: int | None = None
    weights_end: int | None = None


class TrainingRun(WireModel):
    """A trainer's request to a model server: open or close a run, or set the weight version."""

    run: str
    open: bool = True
    """Whether the run is open. False: forget the turns of this run and capture no more."""
    weights: int | None = None
    """The weight version that the endpoint serves from now on; None does not change it. Calls that
    were held go on."""
    hold: bool = False
    """Whether calls of this run wait, before they begin, until the next weight version is set."""
    lease_s: float | None = None
    """The time in seconds after which the run is closed, unless the trainer sends this again: it
    may have crashed. Held calls go on then. None: no limit."""


class TurnsWanted(WireModel):
    """A request for the turns of one rollout. The model server then forgets them."""

    run: str
    task: int | str | None
    rollout: int | None
    attempt: int


class TurnsTaken(msgspec.Struct):
    """The turns of one rollout, sorted by start time."""

    turns: list[CapturedTurn]
    lost: int = 0
    """The number of turns, of all runs since the start, that were dropped before they were
    requested."""

    @classmethod
    def of(cls, answer: JsonObject) -> Self:
        """Parse the answer of a model server in another process. Raises `msgspec.ValidationError`."""
        return msgspec.convert(answer, cls)


class _Kept(msgspec.Struct):
    turns: list[CapturedTurn]
    ids: int = 0


@final
class TurnCapture:
    """The captured turns of one model server process."""

    def __init__(self, *, most_ids: int = MOST_IDS) -> None:
        self._most_ids = most_ids
        self._open: dict[str, float] = {}
        """Run -> when its lease ends."""
        self._held: dict[str, asyncio.Event] = {}
        """Run whose calls wait -> set when they go on."""
        self._kept: OrderedDict[Rollout, _Kept] = OrderedDict()
        self._ids = 0
        self._lost = 0
        self.weights: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether any run is open, or its calls are held."""
        return bool(self._open or self._held)

    @property
    def captures_this_call(self) -> bool:
        """Whether the current call belongs to a rollout of a trainer."""
        return self._rollout() is not None

    def apply(self, order: TrainingRun) -> None:
        """Open a run, close it, or set its weight version, as a trainer requests in `order`."""
        if order.weights is not None:
            self.weights = order.weights
            self._go_on(order.run)
        if not order.open:
            self._close(order.run)
        elif order.lease_s is None:
            self._open[order.run] = math.inf
        else:
            self._open[order.run] = time.monotonic() + order.lease_s
            loop = asyncio.get_running_loop()
            loop.call_later(order.lease_s, self._end_leases)
        if order.hold:
            self._hold(order.run, order.lease_s)

    def _hold(self, run: str, lease_s: float | None) -> None:
        self._go_on(run)
        self._held[run] = may_go_on = asyncio.Event()
        if lease_s is not None:
            asyncio.get_running_loop().call_later(lease_s, self._end_hold, run, may_go_on)

    def _end_hold(self, run: str, may_go_on: asyncio.Event) -> None:
        """Let the calls go on whose trainer has not set new weights within its lease."""
        if self._held.get(run) is may_go_on:
            logger.warning("calls of training run %s go on: its trainer has been silent", run)
            self._go_on(run)

    def _go_on(self, run: str) -> None:
        may_go_on = self._held.pop(run, None)
        if may_go_on is not None:
            may_go_on.set()

    def _end_leases(self) -> None:
        """Close the runs whose trainer has not renewed its lease."""
        now = time.monotonic()
        for run in [run for run, ends_at in self._open.items() if ends_at <= now]:
            logger.warning("training run %s is closed: its trainer has been silent", run)
            self._close(run)

    def _close(self, run: str) -> None:
        self._open.pop(run, None)
        self._go_on(run)
        for rollout in [key for key in self._kept if _trainer_of(key[0]) == run]:
            self._forget(rollout)
        if not self._open:
            self._kept.clear()
            self._ids = 0

    async def during(
        self, call: Awaitable[Answer], judge: Callable[[TurnTokens], TokenVerdict]
    ) -> Answer:
        """Await one model call and return its answer; keep the turn when a trainer's run is open
        for it.

        `judge`: checks the token ids of the answer.
        """
        await self._until_it_may_begin(call)
        rollout = self._rollout()
        if rollout is None:
            return await call
        began, started, weights = time.time(), time.monotonic(), self.weights
        answer = await call
        took_s = time.monotonic() - started
        carrier = _carrier(answer)
        tokens = None if carrier is None else tokens_on(carrier)
        verdict = None
        if tokens is not None:
            verdict = judge(tokens)
            # Copies: the answer itself is the agent's from here on, and it may change it.
            tokens = TurnTokens(
                list(tokens.prompt), list(tokens.generation), list(tokens.log_probs)
            )
        self._keep(rollout, CapturedTurn(began, took_s, tokens, verdict, weights, self.weights))
        return answer

    async def _until_it_may_begin(self, call: Awaitable[object]) -> None:
        """Wait while the current call's run is held. Closes the call when that is cancelled."""
        while (may_go_on := self._hold_of(current_call())) is not None:
            try:
                await may_go_on.wait()
            except BaseException:
                if isinstance(call, Coroutine):
                    call.close()
                raise

    def _hold_of(self, call: CallContext) -> asyncio.Event | None:
        row = call.row
        if not self._held or row is None or call.in_environment:
            return None
        if row.run:
            return self._held.get(_trainer_of(row.run))
        # A path names no run: with two of them it could be either's.
        runs = {*self._held, *self._open}
        return next(iter(self._held.values())) if len(runs) == 1 else None

    def take(self, row: RowIdentity) -> TurnsTaken:
        """Return the turns of a rollout and forget them."""
        turns: list[CapturedTurn] = []
        for run in (row.run, ""):
            buffer = self._forget((run, row.task, row.rollout, row.attempt))
            turns += [] if buffer is None else buffer.turns
        turns.sort(key=lambda turn: turn.began)
        return TurnsTaken(turns, self._lost)

    def _rollout(self) -> Rollout | None:
        if not self._open:
            return None
        call = current_call()
        row = call.row
        # What an environment asks is a judge, and its words are none of the rollout's.
        if row is None or call.in_environment:
            return None
        if row.run:
            return _key(row) if _trainer_of(row.run) in self._open else None
        # A path names no run: with two of them it could be either's.
        return _key(row) if len(self._open) == 1 else None

    def _keep(self, rollout: Rollout, turn: CapturedTurn) -> None:
        tokens = turn.tokens
        size = 0 if tokens is None else len(tokens.prompt) + 2 * len(tokens.generation)
        buffer = self._kept.get(rollout)
        if buffer is None:
            buffer = self._kept[rollout] = _Kept([])
        buffer.turns.append(turn)
        buffer.ids += size
        self._ids += size
        while self._ids > self._most_ids and len(self._kept) > 1:
            dropped = self._forget(next(iter(self._kept)))
            self._lost += 0 if dropped is None else len(dropped.turns)

    def _forget(self, rollout: Rollout) -> _Kept | None:
        buffer = self._kept.pop(rollout, None)
        if buffer is not None:
            self._ids -= buffer.ids
        return buffer


def _key(row: RowIdentity) -> Rollout:
    return (row.run, row.task, row.rollout, row.attempt)


def _trainer_of(run: str) -> str:
    """Return the run that a trainer opened: the ids of its submissions are `<run>.<number>`."""
    return run.partition(".")[0]


def _carrier(answer: Any) -> BaseModel | None:
    """Return the last item or message of the turn, which has the token id lists; None without one."""
    if isinstance(answer, Response):
        for item in reversed(answer.output):
            if is_models_own(item):
                return item
        return None
    if isinstance(answer, ChatCompletion):
        return answer.choices[0].message if answer.choices else None
    return None
