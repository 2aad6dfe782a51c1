"""`RolloutClient`: N rollouts asked for, N answers, or an error that says why.

async with RolloutClient(Fleet(config), settings) as client:
    async with client.submit(requests) as batch:
        async for group in batch.groups(8):
            train_on(group.completed)
    assert batch.summary().adds_up
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, final

from palestra.serving import RunningInstance
from palestra.training.outcomes import Group, Outcome, Summary
from palestra.training.requests import Key, RolloutRequest
from palestra.training.settings import ClientSettings
from palestra.transport import ServerClient


class Servers(Protocol):
    """A fleet that runs: what a client calls and watches. `palestra.serving.Fleet` is one."""

    client: ServerClient
    instances: Mapping[str, RunningInstance]

    async def watch(self) -> None:
        """Wait until a server process ends by itself, and raise how."""


@dataclass(frozen=True, slots=True)
class Health:
    """What a client is doing."""

    ok: bool
    """Whether what is submitted now can come back."""
    reason: str
    """Why not."""
    in_flight: int
    queued: int
    waiting: int
    """Outcomes that nobody has taken yet."""
    paused: bool
    held_back: str
    """Why no rollout is started now, when some could be: `memory`, `bytes`, `waiting`."""
    weight_version: int | None
    servers: dict[str, str]
    """Instance -> state."""


@final
class Handle:
    """One submission. Take its outcomes in one way: iterate, or `groups`, or `gather`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaving early cancels and awaits what has not ended."""

    def __aiter__(self) -> AsyncIterator[Outcome]:
        """Every outcome, in the order in which they end."""

    def groups(self, size: int) -> AsyncIterator[Group]:
        """Each group as soon as all of its `size` members have ended."""

    async def gather(self) -> list[Outcome]:
        """All outcomes, in the order of the requests."""

    def cancel(self, keys: Iterable[Key] | None = None) -> None:
        """Do not want these any more, or none at all: they end as `Failed`, cancelled."""

    def summary(self) -> Summary:
        """What became of the submission so far."""

    async def aclose(self) -> None:
        """Cancel what has not ended, and wait until it has."""


@final
class RolloutClient:
    """Runs rollouts for a trainer. `servers` is entered with the client, and left with it."""

    def __init__(
        self,
        servers: AbstractAsyncContextManager[Servers],
        settings: ClientSettings | None = None,
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def submit(
        self, requests: Iterable[RolloutRequest], *, deadline_s: float | None = None
    ) -> Handle:
        """Ask for rollouts. Raises InputDataError for rows that cannot be run, and duplicates."""

    async def health(self) -> Health: ...

    def pause(self) -> None:
        """Start no rollout until `resume`; those that run go on."""

    def resume(self) -> None: ...

    async def set_weight_version(self, version: int) -> None:
        """The model's weights are of this version from now on."""


# The sync twin, in `palestra.training.sync`:
#   with SyncRolloutClient(lambda: Fleet(config), settings) as client:
#       with client.submit(requests) as batch:      # SyncHandle: for outcome in batch,
#           for group in batch.groups(8): ...       # groups, gather, cancel, summary, close
