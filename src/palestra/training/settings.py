"""How a `RolloutClient` behaves: policies, limits, budgets."""

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from palestra.errors import ConfigError
from palestra.training.outcomes import FailureClass

MIB = 1024 * 1024

Choice = TypeVar("Choice", bound=StrEnum)


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


class OnViolation(StrEnum):
    """What happens to a rollout whose tokens break a rule."""

    RAISE = "raise"
    """The batch ends with the error."""
    MASK = "mask"
    """It is completed, and marked as not to be trained on."""
    SPLIT = "split"
    """It becomes several chains, each of which hangs together; for log probs that are none, a
    chain goes on without being trained on in that turn."""


class OnStale(StrEnum):
    """What happens to a rollout that is older than `max_staleness` versions."""

    KEEP = "keep"
    DROP = "drop"
    """It runs to its end, and is `Failed` as stale."""
    ABORT = "abort"
    """It is cancelled as soon as the weights are bumped too far, and `Failed` as stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """How often a rollout is begun in all, by the class of what failed before.

    Classes that are not named are never tried again: they would fail in the same way.
    """

    most: dict[FailureClass, int] = field(
        default_factory=lambda: {
            FailureClass.INFRA: 3,
            FailureClass.JUDGE: 3,
            FailureClass.TIMEOUT: 2,
        }
    )
    nan_retries: int = 0
    """How often a rollout with log probs that are none is made again, before the policy for them
    applies. It never hides that others are missing: those are looked for first."""
    first_pause_s: float = 0.5
    """Before the second attempt, and twice as long before each other one; drawn from its half
    up, so that those that failed together do not come back together."""
    longest_pause_s: float = 30.0

    def checked(self) -> Self:
        """Itself, its classes as such. Raises ConfigError for what cannot be meant."""
        most = {_chosen("attempts.most", kind, FailureClass): n for kind, n in self.most.items()}
        for kind, count in most.items():
            _at_least(1, f"attempts.most[{kind}]", count)
        for name in ("nan_retries", "first_pause_s", "longest_pause_s"):
            _at_least(0, f"attempts.{name}", getattr(self, name))
        return dataclasses.replace(self, most=most)

    def pause_s(self, attempts: int) -> float:
        """The longest pause after so many attempts."""
        # Doubled so often, any pause is the longest.
        doubled = self.first_pause_s * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS)
        return min(self.longest_pause_s, doubled)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """All of it. The defaults never train on less than what was asked for."""

    agent: str = ""
    """The agent instance for rows without `agent_ref`; empty: the fleet's only one."""
    on_incomplete: OnIncomplete = OnIncomplete.RAISE
    min_group_fraction: float | None = None
    """The least share of a group that must be completed for `groups` to yield it. None: all of
    it with `drop_group`, any of it with `mask` and `return_partial`."""
    on_invalid_logprobs: OnViolation = OnViolation.RAISE
    on_discontinuity: OnViolation = OnViolation.RAISE
    token_ids: bool = True
    """Whether token ids are wanted. Without them, outcomes have no chains and are not checked;
    with them, a rollout whose ids are not all there is masked as an incomplete capture."""
    max_staleness: int | None = None
    """How many versions the weights may have gone on since a token was sampled; None: any."""
    on_stale: OnStale = OnStale.DROP
    attempts: Attempts = field(default_factory=Attempts)
    call_timeout_s: float | None = None
    """Of one call that a rollout makes: of the model, a tool, the verifier."""
    rollout_timeout_s: float = 3600.0
    """Of one attempt."""
    batch_timeout_s: float | None = None
    """Of a submission; what has not ended by then has failed as a timeout."""
    in_flight: int = 256
    """Most rollouts that run at once."""
    max_waiting: int = 1024
    """Most outcomes that wait to be taken; then no rollout is started until some are."""
    max_bytes: int = 1024 * MIB
    """Most bytes that rows in flight and outcomes that wait may have together. A rollout in flight
    counts as large as its row, or as the largest outcome of late when that is more."""
    memory_reserve: float = 0.08
    """The share of the memory that this process may use (its cgroup's limit, or the machine's)
    below which no rollout is started until others have ended. 0 turns that off."""
    stuck_after_s: float = 5.0
    """What an attempt gets beyond its deadline, or beyond its cancellation, to let itself be
    stopped. Then it is left behind."""

    def checked(self) -> Self:
        """Itself, its policies as such. Raises ConfigError for what cannot be meant."""
        share = self.min_group_fraction
        if share is not None and not 0 < share <= 1:
            raise ConfigError(f"min_group_fraction is {share:g}; it must be above 0 and at most 1")
        for name in ("in_flight", "max_waiting", "max_bytes"):
            _at_least(1, name, getattr(self, name))
        for name in ("max_staleness", "batch_timeout_s"):
            _at_least(0, name, getattr(self, name))
        for name in ("call_timeout_s", "rollout_timeout_s", "stuck_after_s"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"{name} is {seconds}; it must be more than 0 seconds")
        if not 0 <= self.memory_reserve < 1:
            raise ConfigError(f"memory_reserve is {self.memory_reserve:g}; it is a share, below 1")
        # A policy that is only spelt like one would be compared with none of them, and do nothing.
        policies = {name: _chosen(name, getattr(self, name), kind) for name, kind in _POLICIES}
        return dataclasses.replace(self, attempts=self.attempts.checked(), **policies)


_POLICIES: Final[tuple[tuple[str, Any], ...]] = (
    ("on_incomplete", OnIncomplete),
    ("on_invalid_logprobs", OnViolation),
    ("on_discontinuity", OnViolation),
    ("on_stale", OnStale),
)
_MOST_DOUBLINGS: Final = 32


def _chosen(name: str, given: object, kind: type[Choice]) -> Choice:
    """The member of `kind` that `given` is, or is spelt like."""
    try:
        return kind(str(given))
    except ValueError:
        raise ConfigError(f"{name} is {given!r}; it must be one of {', '.join(kind)}") from None


def _at_least(least: int, name: str, given: float | None) -> None:
    if given is not None and not given >= least:
        raise ConfigError(f"{name} is {given}; it must be at least {least}")
