"""What happens to a batch when its rollouts fail: a policy for each class of failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self, final

from palestra.errors import FAILURES, ConfigError
from palestra.training.checks import chosen, shown
from palestra.training.outcomes import FailureClass


class OnIncomplete(StrEnum):
    """What happens to the batch and the group of a rollout that has finally failed."""

    RAISE = "raise"
    """Raise `IncompleteRollouts` at once, and cancel the batch's running rollouts."""
    DROP_GROUP = "drop_group"
    """Cancel and drop the rollout's group: `groups` does not yield it."""
    MASK = "mask"
    """Keep the size of the rollout's group, with the `Failed` as a member."""
    RETURN_PARTIAL = "return_partial"
    """Yield the rollout's group without the failed rollout."""


class Outage(StrEnum):
    """Why no rollout can come back: a server caused the failure, not a rollout.

    An outage raises `IncompleteRollouts` under every policy, unless a mapping names the outage.
    """

    SERVER_DIED = "server_died"
    """A server process ended, or the model's endpoint rejects the API key."""
    STUCK = "stuck"
    """A server process is running, but its event loop is blocked."""


PolicyWords = OnIncomplete | str | Mapping[FailureClass, str] | Mapping[str, str]
"""One policy for all failure classes, or a mapping from failure classes and outages to policies."""

_CLASSES: Final = (*FAILURES, *Outage)


@final
@dataclass(frozen=True, slots=True)
class Policies:
    """The policy for each class of failure, and for each outage."""

    others: OnIncomplete
    """The policy for failure classes that are not named."""
    named: Mapping[str, OnIncomplete] = field(default_factory=dict)

    @classmethod
    def of(cls, words: object) -> Self:
        """Return the policies for a setting. Raises ConfigError: a class or a policy is unknown.

        In a mapping, classes and outages that are not named get `raise`.
        """
        if not isinstance(words, Mapping):
            return cls(chosen("on_incomplete", words, OnIncomplete))
        unknown = [kind for kind in words if kind not in _CLASSES]
        if unknown:
            raise ConfigError(
                f"on_incomplete names {', '.join(map(shown, unknown))}; "
                f"it may name {', '.join(_CLASSES)}"
            )
        by_failure = {
            str(kind): chosen(f"on_incomplete[{str(kind)!r}]", policy, OnIncomplete)
            for kind, policy in words.items()
        }
        return cls(OnIncomplete.RAISE, by_failure)

    def for_failure(self, failure: FailureClass) -> OnIncomplete:
        """Return the policy for rollouts with this failure class."""
        return self.named.get(failure, self.others)

    def for_outage(self, outage: Outage) -> OnIncomplete:
        """Return the policy for rollouts that an outage ended."""
        return self.named.get(outage, OnIncomplete.RAISE)
