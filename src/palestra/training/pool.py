"""The pool: starts what was asked for while there is room, and says how each one ended.

Room is what the settings leave: rollouts in flight, outcomes that wait to be taken, bytes of both,
and memory. How one rollout runs is `palestra.training.running`'s; what a failure means to its
batch is decided here.
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, final

from palestra.engine import BoundedTasks
from palestra.errors import Layer
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, RolloutKey
from palestra.training.batch import INTENDED, Batch, stale, too_old
from palestra.training.errors import BatchFailed
from palestra.training.failing import failed
from palestra.training.flights import RETRYING, Flight, Ticket, TicketState
from palestra.training.lanes import Halt, Lane
from palestra.training.memory import MemoryGuard
from palestra.training.outcomes import Completed, Evidence, Failed, FailureClass, Group, Outcome
from palestra.training.policies import OnIncomplete
from palestra.training.requests import Key
from palestra.training.settings import ClientSettings, OnStale

logger = logging.getLogger("palestra.training")

LOOK_AGAIN_S: Final = 0.25
"""How often memory is looked at while it keeps rollouts from starting."""


class _Why(NamedTuple):
    """Of a flight that landed without an outcome, what its outcome is to be."""

    message: str
    failure: FailureClass = FailureClass.INFRA_ERROR
    layer: Layer = Layer.INFRA


_NO_OUTCOME: Final = _Why("it ended without an outcome (a bug in Palestra: please report it)")
_LEFT: Final = _Why("the client was left", FailureClass.CANCELLED)
_CANCELLED_ITSELF: Final = _Why(
    "the code of a rollout cancelled the task that runs it: look for "
    "asyncio.current_task().cancel() in agents, tools and verifiers"
)


@final
class Pool:
    """Tickets in, outcomes out. Lives on one event loop; `run` flies a ticket to its end."""

    def __init__(
        self,
        settings: ClientSettings,
        guard: MemoryGuard,
        run: Callable[[Lane, Ticket, Flight], Coroutine[Any, Any, None]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._policies = settings.policies
        self._guard = guard
        self._run = run
        self._clock = clock
        self.tasks = BoundedTasks()
        self.lanes: dict[str, Lane] = {}
        self.flights: dict[Ticket, Flight] = {}
        self._bytes = 0
        self._largest = 0
        """The largest outcome of late."""
        self.paused = False
        self.weights: int | None = None
        self.death: Halt | None = None
        """Why nothing will ever come back."""
        self.stuck: Halt | None = None
        """Why nothing comes back for now."""
        self.held_back = ""
        self.last_failure = ""
        self._seen_ids = False
        self._again: asyncio.TimerHandle | None = None
        self._closed = False

    # In

    def add(self, run: str, tickets: list[Ticket]) -> Lane:
        """Take in a submission."""
        queue = sorted(tickets)  # which is a heap
        lane = self.lanes[run] = Lane(Batch(tickets, self._settings))
        halt = self.death or self.stuck
        if halt is not None:
            self._bury(lane, halt)
            return lane
        loop = asyncio.get_running_loop()
        lane.queue = queue
        for ticket in tickets:
            if ticket.deadline is not None:
                wait_s = ticket.deadline - self._clock()
                lane.timers.append(loop.call_later(wait_s, self._expire, lane, ticket))
        self.pump()
        return lane

    def pump(self) -> None:
        """Start what there is room for."""
        self.held_back = ""
        while not self.held_back and (ticket := self._next()) is not None:
            lane = self.lanes[ticket.run]
            self.held_back = self._no_room(lane, ticket)
            if not self.held_back:
                heapq.heappop(lane.queue)
                self._start(lane, ticket)
        if not self.held_back and any(lane.head() for lane in self.lanes.values()):
            self.held_back = "max_waiting"
        if self.held_back.startswith("memory") and self._again is None:
            self._again = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)

    def _next(self) -> Ticket | None:
        """The first in turn of the batches whose outcomes are taken."""
        most = self._settings.max_waiting
        heads = (lane.head() for lane in self.lanes.values() if len(lane.batch.arrived) < most)
        return min((ticket for ticket in heads if ticket is not None), default=None)

    def _look_again(self) -> None:
        self._again = None
        self.pump()

    def _no_room(self, lane: Lane, ticket: Ticket) -> str:
        """Why a ticket cannot be started now; empty when it can."""
        if self.paused or self.death is not None:
            return "paused" if self.paused else "the servers are gone"
        if len(self.flights) >= self._settings.in_flight:
            return "in_flight"
        # One at a time, whatever it takes: waiting for nothing would be for ever.
        if not self.flights and not lane.batch.arrived:
            return ""
        held = self._bytes + lane.batch.waiting_bytes + self._expected(ticket)
        if held > self._settings.max_bytes:
            return "bytes"
        return self._guard.low()

    def _expected(self, ticket: Ticket) -> int:
        return max(ticket.size, self._largest)

    def _start(self, lane: Lane, ticket: Ticket) -> None:
        ticket.state = TicketState.RUNNING
        flight = Flight(
            key=RolloutKey(ticket.row[TASK_INDEX], ticket.row[ROLLOUT_INDEX]),
            agent=ticket.agent,
            row=ticket.row,
            started=self._clock(),
        )
        self.flights[ticket] = flight
        ticket.reserved = self._expected(ticket)
        self._bytes += ticket.reserved
        lane.running.add(ticket)
        self.tasks.start(self._fly(lane, ticket, flight))

    async def _fly(self, lane: Lane, ticket: Ticket, flight: Flight) -> None:
        flight.task = asyncio.current_task()
        why = _NO_OUTCOME
        try:
            await self._run(lane, ticket, flight)
        except asyncio.CancelledError:
            # Its own end has been told before it was cancelled by us.
            why = _LEFT if self._closed else _CANCELLED_ITSELF
        except Exception as error:  # a bug of ours: told to whoever waits
            logger.exception("rollout %s", ticket.key)
            why = _Why(f"{type(error).__name__}: {error} (a bug in Palestra: please report it)")
        finally:
            if not ticket.over:
                self._settle_unanswered(lane, ticket, why)
            self._landed(lane, ticket)

    def _settle_unanswered(self, lane: Lane, ticket: Ticket, why: _Why) -> None:
        """No flight lands without an outcome: somebody waits for it."""
        self.settle(
            lane,
            failed(
                ticket.request,
                why.failure,
                why.message,
                layer=why.layer,
                retriable=False,
                attempts=ticket.attempts,
            ),
        )

    def _landed(self, lane: Lane, ticket: Ticket) -> None:
        if self.flights.pop(ticket, None) is not None:
            self._bytes -= ticket.reserved
        lane.running.discard(ticket)
        lane.changed.set()
        self.pump()

    # Out

    def settle(self, lane: Lane, outcome: Outcome, size: int = 0) -> None:
        """A rollout has ended, and what that means for its batch."""
        if not lane.batch.settle(outcome, size):
            return
        lane.changed.set()
        if isinstance(outcome, Completed):
            self._seen_ids = self._seen_ids or bool(outcome.chains)
            self._largest = max(size, self._largest * 15 // 16)
        elif outcome.failure not in INTENDED:
            self.failing(outcome)
            self._failed(lane, outcome)

    def _failed(self, lane: Lane, outcome: Failed) -> None:
        policy = lane.batch.policy_for(outcome)
        if policy is OnIncomplete.RAISE:
            # What is missing is said before the rest is stopped for it.
            self.fail(lane, lane.batch.incomplete(failure=outcome))
            return
        if policy is OnIncomplete.DROP_GROUP:
            self._drop(lane, outcome)
        self._check_share(lane)

    def _check_share(self, lane: Lane) -> None:
        """A batch of which too little can come back ends now, under every policy."""
        if lane.batch.error is None and lane.batch.too_few:
            self.fail(lane, lane.batch.incomplete(short=True))

    def _drop(self, lane: Lane, outcome: Failed) -> None:
        if not lane.batch.hopeless_group(outcome.group_id):
            return
        why = f"rollout {outcome.key} failed ({outcome.failure.value}): {outcome.message}"
        rest = lane.batch.drop_group(outcome.group_id, why)
        self.cancel(lane, rest, f"its group was dropped: {why}")

    def fail(self, lane: Lane, error: BatchFailed) -> None:
        """The batch ends with `error`; the first one counts."""
        if lane.batch.error is None:
            lane.batch.error = error
        self.cancel(lane, lane.batch.unfinished(), f"the batch has failed: {error.message}")
        lane.changed.set()

    def take(self, lane: Lane) -> Outcome | None:
        """The next outcome that waits."""
        outcome = lane.batch.take(self.weights)
        if self.held_back != "in_flight":
            self.pump()
        return outcome

    def at_its_end(self, lane: Lane) -> BatchFailed | None:
        """What is wrong with a batch of which every outcome has been taken."""
        if lane.batch.came_to_nothing:
            return lane.batch.incomplete()
        return lane.batch.blind(seen_before=self._seen_ids)

    def all_of(self, lane: Lane, found: dict[Key, Outcome]) -> list[Outcome]:
        """What was taken of a batch, as it is to be handed out now."""
        outcomes = lane.batch.all_of(found, self.weights)
        self._check_share(lane)
        return outcomes

    def group(self, lane: Lane, group: int | str, found: dict[Key, Outcome]) -> Group | None:
        """What was taken of a group, as it is to be handed out now."""
        members = lane.batch.group_of(group, found, self.weights)
        self._check_share(lane)
        return members

    def failing(self, failure: Failed) -> None:
        """An attempt has failed, whatever becomes of its rollout."""
        self.last_failure = f"rollout {failure.key}, attempt {failure.attempts}: {failure.message}"

    @property
    def retrying(self) -> str:
        """What rollouts in flight ask for again and again; empty when none does."""
        again = [flight for flight in self.flights.values() if flight.phase == RETRYING]
        if not again:
            return ""
        return f"{len(again)} of {len(self.flights)} in flight: {again[-1].awaiting}"

    # Not wanted any more

    def cancel(
        self,
        lane: Lane,
        tickets: list[Ticket],
        message: str,
        *,
        failure: FailureClass = FailureClass.CANCELLED,
    ) -> None:
        """End these now. What runs of them is stopped, and its servers with it."""
        for ticket in tickets:
            why = failed(ticket.request, failure, message, attempts=ticket.attempts)
            if lane.batch.settle(why):
                self._stop(ticket)
        lane.changed.set()

    def _stop(self, ticket: Ticket) -> None:
        flight = self.flights.get(ticket)
        if flight is not None and flight.task is not None:
            ticket.stop_by = self._clock() + self._settings.stuck_after_s
            flight.task.cancel()

    def _expire(self, lane: Lane, ticket: Ticket) -> None:
        """A deadline has passed. An attempt that runs knows it, and says what was awaited."""
        if ticket.state is TicketState.QUEUED:
            waited = self._clock() - ticket.submitted
            message = f"not started within {waited:.1f} s, and its deadline has passed"
            self.settle(lane, failed(ticket.request, FailureClass.TIMEOUT, message))

    def set_weights(self, version: int) -> None:
        """The weights are of this version from now on; what is too old by that may be stopped."""
        self.weights = version
        most = self._settings.max_staleness
        if self._settings.on_stale is not OnStale.ABORT:
            return
        for ticket in list(self.flights):
            if too_old(ticket.weights, version, most):
                why = stale(ticket.weights, version, most)
                lane = self.lanes[ticket.run]
                self.cancel(lane, [ticket], why, failure=FailureClass.STALE)

    def die(self, halt: Halt) -> None:
        """Nothing can come back any more: everything that has not ended has failed."""
        if self.death is not None:
            return
        self.death = halt
        self._bury_all(halt)

    def set_stuck(self, halt: Halt | None) -> None:
        """A server is stuck, so that what was asked for fails; None: all of them go on."""
        if halt is not None and self.stuck is None and self.death is None:
            self._bury_all(halt)
        self.stuck = halt

    @property
    def halted(self) -> bool:
        """Whether the servers can be asked for nothing now."""
        return self.death is not None or self.stuck is not None

    def _bury_all(self, halt: Halt) -> None:
        for lane in list(self.lanes.values()):
            self._bury(lane, halt)

    def _bury(self, lane: Lane, halt: Halt) -> None:
        batch = lane.batch
        unfinished = batch.unfinished()
        tails = [line for tail in halt.log_tails.values() for line in tail]
        buried: list[Failed] = []
        for ticket in unfinished:
            evidence = Evidence(log_tail=tails, hint=halt.cause.setting)
            outcome = failed(
                ticket.request,
                FailureClass.INFRA_ERROR,
                halt.cause.sentence,
                layer=halt.layer,
                retriable=False,
                attempts=ticket.attempts,
                evidence=evidence,
            )
            if batch.settle(outcome, outage=halt.outage):
                buried.append(outcome)
                self._stop(ticket)
        policy = self._policies.for_outage(halt.outage)
        if buried and policy is OnIncomplete.RAISE:
            self.fail(lane, batch.incomplete(halt.cause, halt.log_tails))
        elif policy is OnIncomplete.DROP_GROUP:
            for outcome in buried:
                self._drop(lane, outcome)
        self._check_share(lane)
        lane.changed.set()

    # Keeping order

    def sweep(self) -> None:
        """Leave behind what does not let itself be stopped."""
        now = self._clock()
        for ticket, flight in list(self.flights.items()):
            if ticket.stop_by is None or ticket.stop_by > now or flight.task is None:
                continue
            lane = self.lanes[ticket.run]
            message = (
                f"it goes on although it was cancelled; it was awaiting {flight.describe()}: "
                "code there swallows asyncio.CancelledError"
            )
            self.settle(
                lane,
                failed(ticket.request, FailureClass.TIMEOUT, message, attempts=ticket.attempts),
            )
            self.tasks.leave(flight.task)
            self._landed(lane, ticket)

    def forget(self, run: str) -> None:
        """A submission is over."""
        lane = self.lanes.pop(run, None)
        if lane is not None:
            for timer in lane.timers:
                timer.cancel()

    def close(self) -> None:
        """No more looking; whatever still runs is about to be cancelled."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()

    @property
    def queued(self) -> int:
        """Tickets that have not been started."""
        return sum(
            ticket.state is TicketState.QUEUED
            for lane in self.lanes.values()
            for ticket in lane.queue
        )

    @property
    def waiting(self) -> int:
        """Outcomes that nobody has taken."""
        return sum(len(lane.batch.arrived) for lane in self.lanes.values())
