"""What becomes of a batch when rollouts of it fail: a policy for each class of failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self, final

from palestra.errors import FAILURES, ConfigError
from palestra.training.checks import chosen, shown
from palestra.training.outcomes import FailureClass


class OnIncomplete(StrEnum):
    """What happens when a rollout has failed for good."""

    RAISE = "raise"
    """`IncompleteRollouts`, at once; what still runs is cancelled."""
    DROP_GROUP = "drop_group"
    """Its group is cancelled and dropped: `groups` does not yield it."""
    MASK = "mask"
    """Its group keeps its size, with the `Failed` in its place."""
    RETURN_PARTIAL = "return_partial"
    """Its group is yielded without it."""


class Outage(StrEnum):
    """Why no rollout can come back: a server is at fault, and not a rollout.

    An outage raises under every policy, unless a mapping names it.
    """

    SERVER_DIED = "server_died"
    """A server process ended, or the model's endpoint rejects the API key."""
    STUCK = "stuck"
    """A server process lives, and its event loop does not run."""


PolicyWords = OnIncomplete | str | Mapping[FailureClass, str] | Mapping[str, str]
"""A policy for all classes of failure, or one for each class or outage that is named."""

_CLASSES: Final = (*FAILURES, *Outage)


@final
@dataclass(frozen=True, slots=True)
class Policies:
    """The policy for each class of failure, and for each outage."""

    others: OnIncomplete
    """For classes of failure that are not named."""
    named: Mapping[str, OnIncomplete] = field(default_factory=dict)

    @classmethod
    def of(cls, words: object) -> Self:
        """The policies that a setting means. Raises ConfigError for an unknown class or policy.

        A mapping leaves what it does not name at `raise`.
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
        """The policy for rollouts that failed so."""
        return self.named.get(failure, self.others)

    def for_outage(self, outage: Outage) -> OnIncomplete:
        """The policy for rollouts that an outage ended."""
        return self.named.get(outage, OnIncomplete.RAISE)
