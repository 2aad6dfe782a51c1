"""The client's requests to its fleet's model servers: capture turns, and return them."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final, final

import msgspec

from palestra.config import ServerType
from palestra.errors import CallError, RowIdentity
from palestra.schema import WireModel
from palestra.server import (
    TRAINING_RUN,
    TRAINING_TURNS,
    ModelServer,
    TrainingRun,
    TurnsTaken,
    TurnsWanted,
)
from palestra.training.servers import ANSWER_WITHIN_S, referenced
from palestra.transport import CallContext, Peer, ServerClient, calling, worker_cookie

logger = logging.getLogger("palestra.training")

LEASE_S: Final = 600.0
"""How long a model server keeps the turns of a client that is silent. It is long, because a trainer
that computes on its event loop is silent for that time, and its rollouts go on."""
TOLD_WITHIN_S: Final = 30.0
"""The longest time in seconds that a busy model server has to accept new weights."""
RENEWALS: Final = 3
"""How often a lease is renewed while it lasts."""


@final
class ModelServers:
    """The model servers that a fleet's agents use."""

    def __init__(
        self, client: ServerClient, run: str, *, capture: bool = True, lease_s: float = LEASE_S
    ) -> None:
        self._client = client
        self._run = run
        self._capture = capture
        self._lease_s = lease_s
        self._silent: set[str] = set()
        """Those that know nothing of training: their turns are those on the items."""
        self._behind: dict[str, tuple[str, ...]] = {}
        self._abandoned: list[tuple[str, RowIdentity]] = []

    async def open(self, weights: int | None = None) -> None:
        """Make the model servers capture the turns of this run, and set the version of the weights.

        Raises CallError when one of them cannot be reached: its next turns would be recorded with a
        wrong version.
        """
        order = TrainingRun(
            run=self._run, open=self._capture, weights=weights, lease_s=self._lease_s
        )
        failures = await self._tell_all(order)
        if failures:
            raise failures[0]

    async def hold(self) -> None:
        """Let no rollout of this run begin a call of the model until the next weight version.

        Raises CallError when a model server cannot be reached.
        """
        order = TrainingRun(run=self._run, open=self._capture, hold=True, lease_s=self._lease_s)
        failures = await self._tell_all(order)
        if failures:
            raise failures[0]

    async def keep_open(self) -> None:
        """Renew the lease of this run on the model servers. Runs until it is cancelled."""
        order = TrainingRun(run=self._run, open=self._capture, lease_s=self._lease_s)
        while self._capture:
            await asyncio.sleep(self._lease_s / RENEWALS)
            # One that cannot be reached now is asked again long before its lease ends.
            await self._tell_all(order, within_s=ANSWER_WITHIN_S)

    async def close(self) -> None:
        """Make the model servers forget this run."""
        order = TrainingRun(run=self._run, open=False)
        for failure in await self._tell_all(order, within_s=ANSWER_WITHIN_S):
            logger.warning(
                "a model server was not informed that this training has ended: %s", failure.message
            )

    async def take(self, agent: str, rollout: RowIdentity) -> TurnsTaken | None:
        """Return the turns of a rollout, which the model servers then forget; None when none
        supports capture.

        `lost` is above 0 when only some of the servers returned their turns.
        """
        local_turns: list[TurnsTaken] = []
        calls: list[Coroutine[Any, Any, TurnsTaken | None]] = []
        models = self._models_of(agent)
        for name in models:
            local = self._client.target(name).local
            if name in self._silent:
                local_turns.append(TurnsTaken([], lost=1))
            elif isinstance(local, ModelServer):
                local_turns.append(local.captured_turns(rollout))
            else:
                calls += [self._ask(name, peer, rollout) for peer in self._workers(name)]
        if not calls:
            return None if self._silent.issuperset(models) else _together(local_turns)
        answers = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        return _together(local_turns + [answer or TurnsTaken([], lost=1) for answer in answers])

    def abandon(self, agent: str, rollout: RowIdentity) -> None:
        """Note that nobody needs a rollout's turns. The next `forget` removes them."""
        if self._capture:
            self._abandoned.append((agent, rollout))

    async def forget(self) -> None:
        """Make the model servers forget the turns of abandoned rollouts."""
        while self._abandoned:
            # What is not reached in time comes first the next time.
            await self.take(*self._abandoned[0])
            del self._abandoned[0]

    async def _tell_all(
        self, order: TrainingRun, *, within_s: float = TOLD_WITHIN_S
    ) -> list[CallError]:
        """Send `order` to all model servers. Return the errors, without those of servers that lack
        training endpoints.
        """
        calls = [
            self._notify(name, peer, order, within_s)
            for name in self._all()
            for peer in self._workers(name)
        ]
        return [failure for failure in await asyncio.gather(*calls) if failure is not None]

    async def _notify(
        self, name: str, peer: Peer, order: TrainingRun, within_s: float
    ) -> CallError | None:
        if name in self._silent:
            return None
        try:
            with calling(CallContext(deadline=time.monotonic() + within_s)):
                await peer.call(TRAINING_RUN, order, WireModel)
        except CallError as error:
            if not _unknown_there(error):
                return error
            self._silent.add(name)
            logger.warning(
                "%s does not capture turns for training: the turns are read from the items of "
                "its answers",
                name,
            )
        return None

    async def _ask(self, name: str, peer: Peer, rollout: RowIdentity) -> TurnsTaken | None:
        query = TurnsWanted(
            run=rollout.run, task=rollout.task, rollout=rollout.rollout, attempt=rollout.attempt
        )
        try:
            with calling(CallContext(deadline=time.monotonic() + ANSWER_WITHIN_S)):
                answer = await peer.call(TRAINING_TURNS, query, WireModel)
            return TurnsTaken.of(answer.model_extra or {})
        except (CallError, msgspec.ValidationError) as error:
            logger.warning("%s did not return the turns that it captured: %s", name, error)
            return None

    def _all(self) -> list[str]:
        targets = self._client.targets.values()
        return [target.name for target in targets if target.server_type == ServerType.MODEL]

    def _models_of(self, agent: str) -> tuple[str, ...]:
        """Return the models that an agent's settings name; all of the fleet's when they name none."""
        if agent not in self._behind:
            models = self._all()
            references = referenced(self._client.tree.get(agent), ServerType.MODEL)
            self._behind[agent] = tuple(
                name for name in models if not references or name in references
            )
        return self._behind[agent]

    def _workers(self, name: str) -> list[Peer]:
        """Return a Peer for each process of a server."""
        count = len(self._client.target(name).urls)
        if count < 2:
            return [self._client.peer(name)]
        cookie = worker_cookie(name)
        return [self._client.peer(name, cookies={cookie: str(number)}) for number in range(count)]


def _unknown_there(error: CallError) -> bool:
    """Whether the error means that the server lacks this endpoint."""
    hops = error.evidence.hops
    return bool(hops) and hops[0].status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}


def _together(parts: list[TurnsTaken]) -> TurnsTaken:
    if len(parts) == 1:
        return parts[0]
    turns = sorted((turn for part in parts for turn in part.turns), key=lambda turn: turn.began)
    return TurnsTaken(turns, sum(part.lost for part in parts))
