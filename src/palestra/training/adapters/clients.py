"""What an adapter needs of a client: `RolloutClient` and `SyncRolloutClient` are such."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from palestra.training.outcomes import Outcome
from palestra.training.requests import RolloutRequest


class SubmittedBatch(Protocol):
    """A submission."""

    async def gather(self) -> list[Outcome]:
        """All outcomes, in the order of the requests."""


class Client(Protocol):
    """Runs rollouts."""

    def submit(
        self, requests: Iterable[RolloutRequest], /
    ) -> AbstractAsyncContextManager[SubmittedBatch]: ...


class SyncBatch(Protocol):
    """A submission."""

    def gather(self) -> list[Outcome]:
        """All outcomes, in the order of the requests."""


class SyncClient(Protocol):
    """Runs rollouts for callers that have no event loop."""

    def submit(
        self, requests: Iterable[RolloutRequest], /
    ) -> AbstractContextManager[SyncBatch]: ...

    def set_weight_version(self, version: int, /) -> None:
        """The model's weights are of this version from now on."""
