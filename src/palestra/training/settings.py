"""How a `RolloutClient` behaves: policies, limits, budgets."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from palestra.errors import FAILURES, ConfigError
from palestra.training.checks import (
    FRACTION,
    MAPPING,
    SECONDS,
    Rule,
    chosen,
    instance_of,
    number,
    problems_in,
    require,
    share,
    whole,
)
from palestra.training.outcomes import FailureClass
from palestra.training.policies import OnIncomplete, Policies, PolicyWords

MIB = 1024 * 1024


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
            FailureClass.INFRA_ERROR: 3,
            FailureClass.POLICY_ERROR: 3,
            FailureClass.JUDGE_ERROR: 3,
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
        require("attempts.most", self.most, MAPPING)
        most_attempts = {
            chosen("attempts.most", kind, FAILURES): n for kind, n in self.most.items()
        }
        for kind, count in most_attempts.items():
            require(f"attempts.most[{kind}]", count, whole(1))
        _require_all(self, _RULES_OF_ATTEMPTS, "attempts.")
        return dataclasses.replace(self, most=most_attempts)

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
    on_incomplete: PolicyWords = OnIncomplete.RAISE
    """One policy for all classes of failure, or a policy by class: `{"verifier_error": "mask"}`; classes
    that are not named raise. `server_died` and `stuck` raise unless they are named."""
    min_fraction: float = 0.9
    """The least share of a batch that must come back: when more has failed, or was dropped with
    its group, `IncompleteRollouts` is raised under every policy."""
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
    rollout_timeout_s: float = 1800.0
    """Of one attempt. The two attempts that a timeout gets are together the hour that a collection
    gives its one: a training step waits for its slowest rollout."""
    endpoint_patience_s: float | None = 600.0
    """For how long a model endpoint may refuse everything (429, 5xx, no connection) before the client
    ends, as for a rejected key: all that waits, and all that is submitted later, raises
    `IncompleteRollouts`. None: any time. Longer than an update of weights takes."""
    batch_timeout_s: float | None = None
    """Of a submission; what has not ended by then has failed as a timeout."""
    in_flight: int = 256
    """Most rollouts that run at once."""
    max_waiting: int = 1024
    """So many outcomes that wait to be taken, and no other rollout is started until some are;
    those that run then still come."""
    max_bytes: int = 1024 * MIB
    """Most bytes that rows in flight and outcomes that wait may have together. A rollout in flight
    counts as large as its row, or as the largest outcome of late when that is more."""
    memory_reserve: float = 0.08
    """The share of the memory that this process may use (its cgroup's limit, or the machine's)
    below which no rollout is started until others have ended. 0 turns that off."""
    stuck_patience_s: float = 10.0
    """How long a server may stay stuck before the batches that need it end. A server is stuck when
    its event loop has not run for 10 seconds."""
    stuck_after_s: float = 5.0
    """What an attempt gets beyond its deadline, or beyond its cancellation, to let itself be
    stopped. Then it is left behind."""

    def checked(self) -> Self:
        """Itself, its policies as such. Raises ConfigError for what cannot be meant."""
        _require_all(self, _RULES)
        # A policy that is only spelt like one would be compared with none of them, and do nothing.
        checked = {name: chosen(name, getattr(self, name), kind) for name, kind in _POLICIES}
        words, policies = self.on_incomplete, self.policies
        return dataclasses.replace(
            self,
            attempts=self.attempts.checked(),
            on_incomplete=words if isinstance(words, Mapping) else policies.others,
            **checked,
        )

    @property
    def policies(self) -> Policies:
        """`on_incomplete`, for each class of failure."""
        return Policies.of(self.on_incomplete)


def settings_of(settings: ClientSettings | None) -> ClientSettings:
    """What a client goes by. Raises ConfigError for what cannot be meant."""
    if settings is None:
        return ClientSettings().checked()
    require("settings", settings, instance_of(ClientSettings, "a ClientSettings(in_flight=64, …)"))
    return settings.checked()


_RULES_OF_ATTEMPTS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "nan_retries": whole(0),
        "first_pause_s": number(least=0, unit="of seconds"),
        "longest_pause_s": number(least=0, unit="of seconds"),
    }
)
_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "agent": instance_of(str, "the name of an agent instance"),
        "min_fraction": FRACTION,
        "min_group_fraction": share(zero=False).or_none(),
        "token_ids": instance_of(bool, "True or False"),
        "max_staleness": whole(0).or_none(),
        "attempts": instance_of(
            Attempts, "an Attempts: Attempts(most={FailureClass.INFRA_ERROR: 3})"
        ),
        "call_timeout_s": SECONDS.or_none(),
        "rollout_timeout_s": SECONDS,
        "endpoint_patience_s": SECONDS.or_none(),
        "batch_timeout_s": SECONDS.or_none(),
        "in_flight": whole(1),
        "max_waiting": whole(1),
        "max_bytes": whole(1),
        "memory_reserve": share(zero=True),
        "stuck_patience_s": number(least=0, unit="of seconds"),
        "stuck_after_s": SECONDS,
    }
)
_POLICIES: Final[tuple[tuple[str, Any], ...]] = (
    ("on_invalid_logprobs", OnViolation),
    ("on_discontinuity", OnViolation),
    ("on_stale", OnStale),
)
_MOST_DOUBLINGS: Final = 32


def _require_all(settings: object, rules: Mapping[str, Rule], prefix: str = "") -> None:
    problems = list(problems_in(settings, rules, prefix))
    if problems:
        raise ConfigError("; ".join(problems))
