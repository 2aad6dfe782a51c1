"""One fleet of a `FleetPool`: opened, observed, and opened anew after it was lost."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, final

from palestra.errors import FAILURES, BadInput, PalestraError
from palestra.training.contract import RolloutSource, Submission
from palestra.training.errors import IncompleteRollouts, InvalidLogprobs, TokenDiscontinuity
from palestra.training.health import Health
from palestra.training.outcomes import Outcome
from palestra.training.policies import OnIncomplete, Outage
from palestra.training.requests import Key, RolloutRequest

logger = logging.getLogger("palestra.training")

SourceMaker = Callable[[], RolloutSource]
"""Makes the client of a fleet, not entered. It is called again when the fleet was lost."""

ANSWER_S: Final = 10.0
"""The longest time in seconds that a fleet has to say how it is."""
CLOSE_S: Final = 30.0
EVERY_FAILURE: Final = dict.fromkeys((*FAILURES, *Outage), OnIncomplete.RETURN_PARTIAL)
"""The policies for submissions to a fleet: the pool sees each failure, and decides itself."""


OUTAGES: Final = (PalestraError, OSError, TimeoutError)
"""What a fleet raises that is not there."""


class FleetLost(Exception):
    """The fleet cannot return a rollout that it was given.

    `may_have_begun`: whether the rollout may have done something there.
    """

    def __init__(self, message: str, *, may_have_begun: bool) -> None:
        super().__init__(message)
        self.may_have_begun = may_have_begun


class Interrupted(Exception):
    """A rollout of the same submission ended it, so this one must be submitted anew."""


@dataclass(slots=True, eq=False)
class _Bundle:
    """Rollouts of one submission to the pool that are submitted to a fleet together.

    Those of another submission would end with it when a broken rule for tokens ends it.
    """

    run: str
    """The id of the submission to the pool."""
    pending: "dict[Key, _Awaited]" = field(default_factory=dict)
    submission: Submission | None = None
    task: "asyncio.Task[None] | None" = None

    def add(self, awaited: "_Awaited") -> None:
        """Add a rollout."""
        self.pending[awaited.request.key] = awaited
        awaited.bundle = self

    def fail(self, error: Exception, *, only: Key | None = None) -> None:
        """End the rollouts that are pending, or `only` one, with an error."""
        for key in [key for key in self.pending if only in {None, key}]:
            future = self.pending.pop(key).future
            if not future.done():
                future.set_exception(error)

    async def drop(self, key: Key) -> None:
        """Cancel a rollout that nobody waits for any more. The last one waits for the end of all."""
        if self.pending.pop(key, None) is not None and self.submission is not None:
            self.submission.cancel([key])
        if not self.pending and self.task is not None:
            await asyncio.wait({self.task})


@dataclass(slots=True, eq=False)
class _Awaited:
    """A rollout that somebody waits for."""

    request: RolloutRequest
    run: str
    future: "asyncio.Future[Outcome]"
    bundle: _Bundle | None = None


@final
class PooledFleet:
    """One fleet of a pool."""

    def __init__(self, name: str, make: SourceMaker) -> None:
        self.name = name
        self._make = make
        self._stack = AsyncExitStack()
        self._source: RolloutSource | None = None
        self.reason = "it has not been started"
        """Why no rollout is given to it; empty when it is used."""
        self.repeatable = False
        """Whether a rollout that it lost may run on another fleet."""
        self.health: Health | None = None
        self.running = 0
        """The number of rollouts that it has."""
        self._weights: int | None = None
        """The weight version that it should have."""
        self._weights_sent: int | None = None
        """The weight version that it was sent last; None when it must be sent again."""
        self._holds = False
        """Whether its rollouts begin no call of the model until their weights are set."""
        self._hold_sent = False
        self._asking = asyncio.Lock()
        """Held while it is asked how it is: what is sent to it is sent in order."""
        self._queue: list[_Bundle] = []
        """The rollouts that are submitted at the next turn of the event loop."""
        self._tasks: set[asyncio.Task[None]] = set()

    # Its life

    async def open(self, weights: int | None) -> None:
        """Make its client anew, and enter it. Raises the client's errors."""
        self._weights = weights
        source = self._make()
        self._source = await self._stack.enter_async_context(source)
        self._forget_sent()
        await self.look(self._weights)  # which may have been set anew in the meantime

    async def close(self) -> None:
        """Leave its client. Errors are logged, as the fleet may be gone."""
        self.reason = self.reason or "it is closed"
        self._source = None
        stack, self._stack = self._stack, AsyncExitStack()
        try:
            async with asyncio.timeout(CLOSE_S):
                await stack.aclose()
        except OUTAGES as error:
            logger.warning("fleet %s was not closed in order: %s", self.name, error)

    async def look(self, weights: int | None) -> None:
        """Find out whether it can be used: it is well, has the weight version `weights`, and holds
        its calls if it should.
        """
        self._weights = weights
        async with self._asking:
            source = self._source
            if source is None:
                return
            try:
                async with asyncio.timeout(ANSWER_S):
                    health = await source.health()
                    if health.ok:
                        await self._send_orders(source, health)
            except BadInput:
                raise
            except OUTAGES as error:
                self.reason = str(error) or f"it did not answer within {ANSWER_S:g} s"
                return
        self.health = health
        if health.ok:
            self.repeatable = health.repeatable
        if self._source is source:
            self.reason = health.reason if not health.ok else ""

    async def _send_orders(self, source: RolloutSource, health: Health) -> None:
        """Send the weight version, or the order to hold calls, where it does not have them."""
        if self._weights_sent is not None and health.weight_version != self._weights_sent:
            self._forget_sent()  # a service that was started anew
        if self._holds:
            if not self._hold_sent:
                await source.hold_calls()
                self._hold_sent = True
        elif (weights := self._weights) is not None and weights != self._weights_sent:
            await source.set_weight_version(weights)
            self._weights_sent = weights

    def _forget_sent(self) -> None:
        self._weights_sent, self._hold_sent = None, False

    async def hold(self) -> None:
        """Let its rollouts begin no call of the model until their weights are set. It gets no
        rollout until it was told.
        """
        self._holds = True
        await self.look(self._weights)

    async def set_weights(self, weights: int) -> None:
        """Set the weight version of its model, and let held calls go on."""
        if self._holds:
            self._holds = False
            self._forget_sent()
        await self.look(weights)

    @property
    def is_usable(self) -> bool:
        """Whether rollouts are given to it."""
        return not self.reason

    @property
    def capacity(self) -> int:
        """The number of rollouts that it runs at once."""
        return 1 if self._source is None else self._source.settings.in_flight

    @property
    def load(self) -> float:
        """The share of its capacity that is in use."""
        return self.running / self.capacity

    def pause(self) -> None:
        """Let it start no more rollouts."""
        if self._source is not None:
            self._source.pause()

    def resume(self) -> None:
        """Let it start rollouts again."""
        if self._source is not None:
            self._source.resume()

    # Its rollouts

    async def run(self, request: RolloutRequest, run: str) -> Outcome:
        """Run one rollout of the submission `run` to the pool. Requests of the same moment are
        submitted together.

        Raises FleetLost, or Interrupted. Raises the error of a broken rule for tokens, and
        InputDataError: the fleet refuses the row.
        """
        awaited = _Awaited(request, run, asyncio.get_running_loop().create_future())
        self._enqueue(awaited)
        self.running += 1
        try:
            return await awaited.future
        except asyncio.CancelledError:
            if awaited.bundle is not None:
                await awaited.bundle.drop(request.key)
            raise
        finally:
            self.running -= 1

    def _enqueue(self, awaited: _Awaited) -> None:
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._submit_queue)
        key, run = awaited.request.key, awaited.run
        # A rollout that was lost may come again before its last bundle was submitted.
        bundle = next(
            (item for item in self._queue if item.run == run and key not in item.pending), None
        )
        if bundle is None:
            bundle = _Bundle(run)
            self._queue.append(bundle)
        bundle.add(awaited)

    def _submit_queue(self) -> None:
        queue, self._queue = self._queue, []
        for bundle in queue:
            self._start(bundle)

    def _start(self, bundle: _Bundle) -> None:
        bundle.task = asyncio.create_task(self._run_bundle(bundle), name=f"rollouts on {self.name}")
        self._tasks.add(bundle.task)
        bundle.task.add_done_callback(self._tasks.discard)

    async def _run_bundle(self, bundle: _Bundle) -> None:
        error: Exception = FleetLost("it was closed", may_have_begun=False)
        try:
            await self._hand_out(bundle)
        except (InvalidLogprobs, TokenDiscontinuity) as violation:
            bundle.fail(violation, only=violation.key)
            error = Interrupted()
        except BadInput as refusal:
            if len(bundle.pending) > 1:
                self._start_singly(bundle)
                return
            error = refusal
        except PalestraError as failure:
            error = FleetLost(_sentence(failure), may_have_begun=True)
        except Exception as failure:  # a bug, of ours or of a client of somebody's own
            logger.exception("fleet %s", self.name)
            error = FleetLost(f"{type(failure).__name__}: {failure}", may_have_begun=True)
        bundle.fail(error)

    def _start_singly(self, bundle: _Bundle) -> None:
        """Submit each rollout by itself, because the fleet refuses at least one of them."""
        for awaited in bundle.pending.values():
            single = _Bundle(bundle.run)
            single.add(awaited)
            self._start(single)

    async def _hand_out(self, bundle: _Bundle) -> None:
        """Submit the rollouts of a bundle, and hand each outcome to whoever waits for it."""
        source = self._source
        if source is None or not bundle.pending:
            return
        requests = [awaited.request for awaited in bundle.pending.values()]
        async with source.submit(
            requests, on_incomplete=EVERY_FAILURE, min_fraction=0.0
        ) as submission:
            bundle.submission = submission
            while bundle.pending and (outcome := await submission.next()) is not None:
                awaited = bundle.pending.pop(outcome.key, None)
                if awaited is not None and not awaited.future.done():
                    awaited.future.set_result(outcome)


def _sentence(error: PalestraError) -> str:
    """Return what happened, without the list of rollouts that belongs to the fleet's submission."""
    return error.cause.sentence if isinstance(error, IncompleteRollouts) else error.message
