"""What every client for a trainer offers, wherever its rollouts run.

`RolloutClient` runs them on its own fleet. Whatever stands on a client (group sampling, a service, an
adapter) needs only these protocols, so it works with every client.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Protocol, Self, runtime_checkable

from palestra.training.groups import Group
from palestra.training.health import Health
from palestra.training.outcomes import Outcome, Summary
from palestra.training.policies import PolicyWords
from palestra.training.requests import Key, RolloutRequest
from palestra.training.settings import ClientSettings


class Submission(Protocol):
    """One submission. Take its outcomes in only one way: iterate, `groups`, or `gather`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *raised: object) -> None: ...

    def __aiter__(self) -> AsyncIterator[Outcome]: ...

    async def next(self) -> Outcome | None:
        """Return the next outcome, in the order in which they end; None after the last."""
        ...

    def groups(self, size: int, /) -> AsyncIterator[Group]:
        """Yield each group as soon as all of its `size` members have ended."""
        ...

    async def gather(self) -> list[Outcome]:
        """Return all outcomes, in the order of the requests."""
        ...

    def cancel(self, keys: Iterable[Key] | None = None) -> None:
        """Cancel the rollouts with these keys, or all by default."""
        ...

    def stop(self, reason: str) -> None:
        """End the submission with `IncompleteRollouts`, whose cause is `reason`, unless all rollouts
        have ended. The error has the outcomes that nobody has taken.
        """
        ...

    def summary(self) -> Summary:
        """Return the counts of the submission so far: for a client of a service, those of its last
        answer.
        """
        ...

    async def aclose(self) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        ...


@runtime_checkable
class RolloutSource(Protocol):
    """Runs rollouts for a trainer: N requested, N outcomes, or an error that says why."""

    settings: ClientSettings

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *raised: object) -> None: ...

    def submit(
        self,
        requests: Iterable[RolloutRequest],
        *,
        deadline_s: float | None = None,
        on_incomplete: PolicyWords | None = None,
        min_fraction: float | None = None,
    ) -> Submission:
        """Submit rollouts; they start at once.

        `on_incomplete` and `min_fraction` replace the client's settings for this submission. So a
        trainer and an evaluation can share a client, and a pool can see every failure itself.
        """
        ...

    async def health(self) -> Health:
        """Return the client's current state, and whether rollouts can come back."""
        ...

    def pause(self) -> None:
        """Start no more rollouts until `resume`; running rollouts continue."""
        ...

    def resume(self) -> None:
        """Start rollouts again."""
        ...

    @property
    def weight_version(self) -> int | None:
        """The weight version that was set last; None before the first."""
        ...

    async def hold_calls(self) -> None:
        """Let no rollout begin a call of the model until `set_weight_version`: while the weights
        change, a turn that ends is not followed by one of unknown weights. Calls that run go on.
        """
        ...

    async def set_weight_version(self, version: int) -> None:
        """Set the version of the model's weights from now on. Held calls go on."""
        ...
