"""The rules of group sampling that a trainer sets, and the report of what they did."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import msgspec

from palestra.errors import FAILURES, ConfigError
from palestra.training.checks import FRACTION, Rule, instance_of, number, problems_in, whole
from palestra.training.policies import OnIncomplete, Policies, PolicyWords

_ALLOWED: Final = (OnIncomplete.RAISE, OnIncomplete.DROP_GROUP)
LEAST_SPREAD: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSampling:
    """Which members of a group are returned when more were requested than needed.

    Before the start, the members of each group are put in a random order. The first `needed` are
    the group. The others are spares: each replaces, in that order, a member that failed. So a short
    rollout has no better chance than a long one.
    """

    needed: int
    """The number of members of each returned group. The requests of a group beyond it are its
    spares."""
    seed: int = 0
    """The seed of the random order; the same seed gives the same order for a group's id."""
    max_slow_fraction: float = 0.0
    """The largest fraction of the needed rollouts of a submission that may be replaced because they
    are slow. When no more than that are still running, finished spares take their places."""
    on_incomplete: PolicyWords = OnIncomplete.RAISE
    """What happens when a group has too few members left: `raise`, or `drop_group`."""

    def checked(self) -> Self:
        """Return it. Raises ConfigError: a value is invalid."""
        _require_all(self, _OVER, "over-sampling: ")
        policies = self.policies
        for policy in (policies.others, *policies.named.values()):
            if policy not in _ALLOWED:
                raise ConfigError(
                    f"over-sampling: on_incomplete is {policy.value}; it must be "
                    f"{' or '.join(_ALLOWED)}",
                    hint="a group that is returned has `needed` members with a reward",
                )
        return self

    @property
    def policies(self) -> Policies:
        """The policies from `on_incomplete`, for each class of failure."""
        return Policies.of(self.on_incomplete)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSampling:
    """How groups without spread of reward are replaced by groups of fresh tasks.

    Which tasks are used depends on their rewards alone, never on the order in which rollouts end.
    """

    groups: int
    """The number of groups to return."""
    members: OverSampling
    """Which members of each group are returned. The groups of the queue may have spares."""
    max_fresh_groups: int
    """The largest number of fresh groups, beyond the first `groups`, that may be run."""
    least_spread: float = LEAST_SPREAD
    """A group has spread when its highest and lowest reward differ by more than this."""

    def checked(self) -> Self:
        """Return it. Raises ConfigError: a value is invalid."""
        _require_all(self, _DYNAMIC, "dynamic sampling: ")
        if self.members.checked().needed == 1:
            raise ConfigError(
                "dynamic sampling: members.needed is 1, and a group of one rollout has no spread",
                hint="needed must be at least 2",
            )
        return self


class SamplingReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was sampled so far. A group is submitted, and then returned, without spread, short, or
    stale; groups that have not ended or wait to be taken are none of these.
    """

    needed: int
    """The number of members of a group."""
    submitted_groups: int = 0
    fresh_groups: int = 0
    """The number of submitted groups that replace another group."""
    returned_groups: int = 0
    without_spread: int = 0
    """The number of groups that were replaced because their rewards are equal."""
    short_groups: int = 0
    """The number of groups that were dropped because too few members were left."""
    stale_groups: int = 0
    """The number of groups that were dropped because a member was too old when the group was taken.
    """
    replaced_failed: int = 0
    """The number of needed rollouts that failed and were replaced by a spare."""
    replaced_slow: int = 0
    """The number of needed rollouts that were replaced by a spare because they were slow."""
    unused_spares: int = 0
    """The number of completed rollouts that were not needed."""
    cancelled: int = 0
    """The number of rollouts that were cancelled because their group was decided."""

    @property
    def bias_bound(self) -> float:
        """The largest distance (Kolmogorov-Smirnov, from 0 to 1) between the returned rollouts and
        a random sample of all, in any quantity. Groups without spread count as returned here: they
        were complete.
        """
        dropped = self.short_groups + self.stale_groups
        decided = self.returned_groups + self.without_spread + dropped
        replaced = self.replaced_failed + self.replaced_slow + self.needed * dropped
        return replaced / (self.needed * decided) if decided else 0.0

    def metrics(self) -> dict[str, float]:
        """Return the report as numbers by name: `sampling/NAME`."""
        counts = {
            f"sampling/{name}": float(value) for name, value in msgspec.structs.asdict(self).items()
        }
        return counts | {"sampling/bias_bound": self.bias_bound}


FAILURES_SEEN: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(map(str, FAILURES), OnIncomplete.RETURN_PARTIAL.value)
)
"""The policies for submissions: the sampler sees each failure, and decides itself. An outage is not
named, so it raises."""

_OVER: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "needed": whole(1),
        "seed": whole(),
        "max_slow_fraction": FRACTION,
    }
)
_DYNAMIC: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "groups": whole(1),
        "members": instance_of(OverSampling, "an OverSampling(needed=8)"),
        "max_fresh_groups": whole(0),
        "least_spread": number(least=0),
    }
)


def _require_all(settings: object, rules: Mapping[str, Rule], prefix: str) -> None:
    problems = list(problems_in(settings, rules))
    if problems:
        raise ConfigError(prefix + "; ".join(problems))
