"""`Group`: the rollouts that are compared with each other, whether they may be, and advantages.

A baseline is right only when every member that enters it is a rollout of the same policy, to its
end. So a group names each member that is not, and statistics leave that member out.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean, stdev

import msgspec

from palestra.training.outcomes import Completed, Failed, FailureClass, Outcome
from palestra.training.requests import Key

EPSILON = 1e-4
"""Added to the standard deviation that advantages are divided by, so that rewards that differ only
by rounding do not become large advantages."""


class Fault(StrEnum):
    """Why a member of a group must not enter its statistics."""

    FAILED = "failed"
    """It has no reward."""
    STALE = "stale"
    """It failed because its weights were too old."""
    MASKED = "masked"
    """It must not be trained on."""
    MIXED_WEIGHTS = "mixed_weights"
    """Its tokens are of several weight versions, or of another version than the group's."""
    LEFT_OUT = "left_out"
    """It failed, and `return_partial` left it out of the group."""


class MemberFault(msgspec.Struct, frozen=True):
    """One member of a group that must not enter its statistics, and why."""

    fault: Fault
    key: Key | None
    """The member's key; None for a member that was left out."""
    detail: str


class Advantages(msgspec.Struct, frozen=True):
    """The advantages of a group's valid members. Both lists have the same order and length; they
    are empty with fewer than two valid members, because one rollout has no baseline.
    """

    members: list[Completed]
    values: list[float]
    mean: float | None
    """The mean reward of the members: the baseline."""
    std: float | None
    """The sample standard deviation of their rewards (divided by n - 1)."""


class Group(msgspec.Struct, frozen=True):
    """The outcomes of one group, in the order of their requests.

    `completed` has every member with a reward. `valid()` leaves out those that must not enter a
    baseline; `faults` says which and why.
    """

    group_id: int | str
    outcomes: list[Outcome]
    left_out: int = 0
    """The number of failed members that are not in `outcomes`."""

    @property
    def completed(self) -> list[Completed]:
        """The outcomes with a reward."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Completed)]

    @property
    def rewards(self) -> list[float]:
        """The rewards of the completed outcomes, in order."""
        return [outcome.reward for outcome in self.completed]

    @property
    def is_valid(self) -> bool:
        """Whether every requested member may enter the group's statistics."""
        return not self.faults

    @property
    def faults(self) -> list[MemberFault]:
        """The members that must not enter the group's statistics, at most one fault each."""
        version = _version_of(self.completed)
        faults = [fault for outcome in self.outcomes if (fault := _fault_of(outcome, version))]
        absent = MemberFault(Fault.LEFT_OUT, None, "it failed, and the policy is return_partial")
        return faults + [absent] * self.left_out

    def valid(self, *, mixed_weights: bool = False) -> list[Completed]:
        """Return the members that may enter the group's statistics.

        `mixed_weights`: whether the weight versions do not matter, as for a trainer that corrects
        each token by its log prob.
        """
        ignored = {Fault.MIXED_WEIGHTS} if mixed_weights else set[Fault]()
        bad = {fault.key for fault in self.faults if fault.fault not in ignored}
        return [outcome for outcome in self.completed if outcome.key not in bad]

    def advantages(
        self, *, mixed_weights: bool = False, divide: bool = True, epsilon: float = EPSILON
    ) -> Advantages:
        """Return (reward - mean) / (std + epsilon) for each valid member.

        Mean and standard deviation are those of the valid members alone. `divide=False`: reward -
        mean. `mixed_weights`: as for `valid`.
        """
        members = self.valid(mixed_weights=mixed_weights)
        if len(members) < 2:  # one rollout has no baseline
            return Advantages([], [], None, None)
        rewards = [member.reward for member in members]
        mean, std = fmean(rewards), stdev(rewards)
        scale = std + epsilon if divide else 1.0
        return Advantages(members, [(reward - mean) / scale for reward in rewards], mean, std)


def _fault_of(outcome: Outcome, version: int | None) -> MemberFault | None:
    """Return what is wrong with a member of a group of this weight version; None when nothing is."""
    if isinstance(outcome, Failed):
        fault = Fault.STALE if outcome.failure is FailureClass.STALE else Fault.FAILED
        return MemberFault(fault, outcome.key, f"{outcome.failure.value}: {outcome.message}")
    if outcome.masked:
        return MemberFault(Fault.MASKED, outcome.key, outcome.mask_reason)
    versions = outcome.weight_versions
    if versions != [version]:
        listed = ", ".join(_version_text(item) for item in versions)
        detail = f"its tokens are of weight version {listed}; the group's is "
        return MemberFault(Fault.MIXED_WEIGHTS, outcome.key, detail + _version_text(version))
    return None


def _version_of(members: Sequence[Completed]) -> int | None:
    """Return the weight version of a group: that of most members, the newest of equally many.

    Members that are masked, or of several versions, do not count.
    """
    counts = Counter(
        versions[0]
        for member in members
        if not member.masked and len(versions := member.weight_versions) == 1
    )
    return max(
        counts,
        key=lambda version: (counts[version], -1 if version is None else version),
        default=None,
    )


def _version_text(version: int | None) -> str:
    return "unknown" if version is None else str(version)
