"""What a client tells the model servers of its fleet, and asks them."""

import logging
import time
from typing import final

import msgspec

from palestra.config import ServerType
from palestra.errors import CallError, RowIdentity
from palestra.schema import WireModel
from palestra.serving import (
    TRAINING_RUN,
    TRAINING_TURNS,
    ModelServer,
    TrainingRun,
    TurnsTaken,
    TurnsWanted,
)
from palestra.training.servers import ANSWER_WITHIN_S, references_in
from palestra.transport import CallContext, Peer, ServerClient, calling, worker_cookie

logger = logging.getLogger("palestra.training")


@final
class ModelServers:
    """The model servers behind the agents of a fleet."""

    def __init__(self, client: ServerClient, run: str, *, capture: bool = True) -> None:
        self._client = client
        self._run = run
        self._capture = capture
        self._silent: set[str] = set()
        """Those that know nothing of training: their turns are those on the items."""
        self._behind: dict[str, tuple[str, ...]] = {}
        self._abandoned: list[tuple[str, RowIdentity]] = []

    async def open(self, weights: int | None = None) -> None:
        """Have them remember the turns of this run, and tell them the version of the weights."""
        order = TrainingRun(run=self._run, open=self._capture, weights=weights)
        await self._tell_all(order)

    async def close(self) -> None:
        """Have them forget it."""
        await self._tell_all(TrainingRun(run=self._run, open=False))

    async def take(self, agent: str, rollout: RowIdentity) -> TurnsTaken | None:
        """The turns of a rollout, forgotten there; None when nobody knows."""
        found: TurnsTaken | None = None
        for name in self._models_of(agent):
            local = self._client.target(name).local
            if isinstance(local, ModelServer):
                found = _together(found, local.captured_turns(rollout))
                continue
            for peer in self._workers(name):
                found = _together(found, await self._ask(name, peer, rollout))
        return found

    def abandon(self, agent: str, rollout: RowIdentity) -> None:
        """Its turns are of no use to anybody; they are forgotten at the next `forget`."""
        if self._capture:
            self._abandoned.append((agent, rollout))

    async def forget(self) -> None:
        """Have what was abandoned forgotten."""
        abandoned, self._abandoned = self._abandoned, []
        for agent, rollout in abandoned:
            await self.take(agent, rollout)

    async def _tell_all(self, order: TrainingRun) -> None:
        for name in self._all():
            for peer in self._workers(name):
                try:
                    with calling(CallContext(deadline=time.monotonic() + ANSWER_WITHIN_S)):
                        await peer.call(TRAINING_RUN, order, WireModel)
                except CallError as error:
                    self._silent.add(name)
                    logger.debug("%s knows nothing of training: %s", name, error.message)

    async def _ask(self, name: str, peer: Peer, rollout: RowIdentity) -> TurnsTaken | None:
        wanted = TurnsWanted(
            run=rollout.run, task=rollout.task, rollout=rollout.rollout, attempt=rollout.attempt
        )
        try:
            with calling(CallContext(deadline=time.monotonic() + ANSWER_WITHIN_S)):
                answer = await peer.call(TRAINING_TURNS, wanted, WireModel)
            return TurnsTaken.of(answer.model_extra or {})
        except (CallError, msgspec.ValidationError) as error:
            logger.warning("%s did not say what it captured: %s", name, error)
            return None

    def _all(self) -> list[str]:
        targets = self._client.targets.values()
        return [target.name for target in targets if target.server_type == ServerType.MODEL]

    def _models_of(self, agent: str) -> tuple[str, ...]:
        """The models that an agent's settings name; all of the fleet's when they name none."""
        if agent not in self._behind:
            known = self._all()
            named = references_in(self._client.tree.get(agent), ServerType.MODEL)
            self._behind[agent] = tuple(name for name in known if not named or name in named)
        return tuple(name for name in self._behind[agent] if name not in self._silent)

    def _workers(self, name: str) -> list[Peer]:
        """A conversation with each process of a server."""
        count = len(self._client.target(name).urls)
        if count < 2:
            return [self._client.peer(name)]
        cookie = worker_cookie(name)
        return [self._client.peer(name, cookies={cookie: str(number)}) for number in range(count)]


def _together(one: TurnsTaken | None, other: TurnsTaken | None) -> TurnsTaken | None:
    if one is None or other is None:
        return one or other
    turns = sorted([*one.turns, *other.turns], key=lambda turn: turn.began)
    return TurnsTaken(turns, one.lost + other.lost)
