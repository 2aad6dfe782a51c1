"""The client methods that adapters use; `RolloutClient` and `SyncRolloutClient` have them."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from palestra.training.outcomes import Outcome
from palestra.training.requests import RolloutRequest


class SubmittedBatch(Protocol):
    """One submission of rollout requests."""

    async def gather(self) -> list[Outcome]:
        """Return all outcomes, in the order of the requests."""


class Client(Protocol):
    """A client that runs rollouts."""

    def submit(
        self, requests: Iterable[RolloutRequest], /
    ) -> AbstractAsyncContextManager[SubmittedBatch]: ...


class SyncBatch(Protocol):
    """One submission of rollout requests, for callers that have no event loop."""

    def gather(self) -> list[Outcome]:
        """Return all outcomes, in the order of the requests."""


class SyncClient(Protocol):
    """A client that runs rollouts for callers that have no event loop."""

    def submit(
        self, requests: Iterable[RolloutRequest], /
    ) -> AbstractContextManager[SyncBatch]: ...

    def set_weight_version(self, version: int, /) -> None:
        """Set the version of the model's weights from now on."""
