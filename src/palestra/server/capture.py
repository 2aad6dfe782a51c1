"""What a model server generated, kept for the trainer that asked for the rollout.

A trainer opens a run; from then on every call of the model that is made for one of its rollouts
is remembered with its token ids and the weights that made it, until the trainer takes the
rollout's turns. So ids reach it although an agent drops them from what it passes on, and a
version that is bumped in the middle of a call is known at both of its ends.

A call belongs to a rollout by the identity it came with: in the headers of a call of the fleet, or
in its path (`/ng-rollout/<id>/`), which names no run: it is of the only one that is open.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
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
from palestra.transport import current_call

Answer = TypeVar("Answer")

MOST_IDS: Final = 32_000_000
"""Token ids that are kept for rollouts nobody has taken yet: about a GiB. Then the oldest go."""

TRAINING_RUN: Final = "/training/run"
TRAINING_TURNS: Final = "/training/turns"

Rollout = tuple[str, int | str | None, int | None, int]
"""Run, task, rollout, attempt."""


class CapturedTurn(msgspec.Struct):
    """One call of the model."""

    began: float
    """Seconds since the epoch."""
    took_s: float
    tokens: TurnTokens | None = None
    """None when the endpoint returned none."""
    verdict: TokenVerdict | None = None
    """On `tokens`. None where there are none, or nobody checked them."""
    weights_start: int | None = None
    weights_end: int | None = None


class TrainingRun(WireModel):
    """A trainer's word to a model server."""

    run: str
    open: bool = True
    """False: nothing of this run is to be remembered any more."""
    weights: int | None = None
    """The version that the endpoint serves from now on; None leaves it as it is."""


class TurnsWanted(WireModel):
    """Whose turns are to be taken. They are forgotten here."""

    run: str
    task: int | str | None
    rollout: int | None
    attempt: int


class TurnsTaken(msgspec.Struct):
    """The turns of one rollout, in the order in which they began."""

    turns: list[CapturedTurn]
    lost: int = 0
    """Turns that had to be forgotten before they were asked for, of all runs, since the start."""

    @classmethod
    def of(cls, answer: JsonObject) -> Self:
        """What a model server of another process answered. Raises `msgspec.ValidationError`."""
        return msgspec.convert(answer, cls)


class _Kept(msgspec.Struct):
    turns: list[CapturedTurn]
    ids: int = 0


@final
class TurnCapture:
    """The turns of one model server's process."""

    def __init__(self, *, most_ids: int = MOST_IDS) -> None:
        self._most_ids = most_ids
        self._open: set[str] = set()
        self._kept: OrderedDict[Rollout, _Kept] = OrderedDict()
        self._ids = 0
        self._lost = 0
        self.weights: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether any run is open."""
        return bool(self._open)

    @property
    def captures_this_call(self) -> bool:
        """Whether the call that is served is one of a trainer's rollouts."""
        return self._rollout() is not None

    def apply(self, order: TrainingRun) -> None:
        """A trainer begins a run, ends it, or has new weights."""
        if order.weights is not None:
            self.weights = order.weights
        if order.open:
            self._open.add(order.run)
            return
        self._open.discard(order.run)
        for rollout in [key for key in self._kept if _trainer_of(key[0]) == order.run]:
            self._forget(rollout)
        if not self._open:
            self._kept.clear()
            self._ids = 0

    async def during(
        self, call: Awaitable[Answer], judge: Callable[[TurnTokens], TokenVerdict]
    ) -> Answer:
        """The answer of one call of the model, remembered when somebody wants it.

        `judge` checks the token ids that the answer carries.
        """
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

    def take(self, row: RowIdentity) -> TurnsTaken:
        """The turns of a rollout; they are forgotten."""
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
    """The run that was opened: a trainer's submissions are `<run>.<number>`."""
    return run.partition(".")[0]


def _carrier(answer: Any) -> BaseModel | None:
    """The item or message that ends the turn, on which its lists are."""
    if isinstance(answer, Response):
        for item in reversed(answer.output):
            if is_models_own(item):
                return item
        return None
    if isinstance(answer, ChatCompletion):
        return answer.choices[0].message if answer.choices else None
    return None
