"""The settings of a `RolloutClient`: policies, limits, budgets."""

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
    """End the batch with the error."""
    MASK = "mask"
    """Complete the rollout, and mask it so that it is not trained on."""
    SPLIT = "split"
    """Split the rollout into several valid chains. With invalid log probs, the chain continues, but
    that turn is not trained on."""


class OnStale(StrEnum):
    """What happens to a rollout whose weights are older than `max_staleness` versions."""

    KEEP = "keep"
    DROP = "drop"
    """Let the rollout run to its end, then make it `Failed` as stale."""
    ABORT = "abort"
    """Cancel the rollout as soon as its weights are too old, and make it `Failed` as stale."""
    CONTINUE = "continue"
    """Let the rollout go on with the new weights, and complete it. Its turns that are too old are
    not trained on (`turn.trained`); without any other turn it is masked. The change takes effect
    with the next call of the model: a call that runs is not interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The largest number of attempts per rollout, by failure class.

    Failure classes that are not named are never retried, because they would fail again.
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
    """How often a rollout with invalid log probs is repeated before the policy for them applies. A
    server's death is checked first, so repeats never hide it."""
    first_pause_s: float = 0.5
    """The longest pause before the second attempt; it doubles with each further attempt. The pause
    is random between half and all of it, so that rollouts that failed together do not return
    together."""
    longest_pause_s: float = 30.0

    def checked(self) -> Self:
        """Return a checked copy, with enum members for class names. Raises ConfigError: a value is
        invalid.
        """
        require("attempts.most", self.most, MAPPING)
        most_attempts = {
            chosen("a key of attempts.most", kind, FAILURES): n for kind, n in self.most.items()
        }
        for kind, count in most_attempts.items():
            require(f"attempts.most[{kind}]", count, whole(1))
        _require_all(self, _RULES_OF_ATTEMPTS, "attempts.")
        return dataclasses.replace(self, most=most_attempts)

    def pause_s(self, attempts: int) -> float:
        """Return the longest pause after this number of attempts."""
        # Doubled so often, any pause is the longest.
        doubled = self.first_pause_s * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS)
        return min(self.longest_pause_s, doubled)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """All settings of a client. The defaults never train on fewer rollouts than requested."""

    agent: str = ""
    """The agent instance for rows without `agent_ref`; empty: the fleet's only agent."""
    on_incomplete: PolicyWords = OnIncomplete.RAISE
    """One policy for all failure classes, or a policy by class: `{"verifier_error": "mask"}`.
    Classes that are not named raise. `server_died` and `stuck` raise unless they are named."""
    min_fraction: float = 0.9
    """The smallest fraction of a batch that must come back. If more rollouts fail, or are dropped
    with their group, `IncompleteRollouts` is raised under every policy."""
    min_group_fraction: float | None = None
    """The smallest fraction of a group that must be completed for `groups` to yield it. None: all
    members with `drop_group`, at least one with `mask` and `return_partial`."""
    on_invalid_logprobs: OnViolation = OnViolation.RAISE
    on_discontinuity: OnViolation = OnViolation.RAISE
    token_ids: bool = True
    """Whether token ids are requested. Without them, outcomes have no chains and no token checks.
    With them, a rollout with missing ids is masked as an incomplete capture."""
    max_staleness: int | None = None
    """The largest number of versions between the weights that sampled a token and the current ones;
    None: no limit."""
    on_stale: OnStale = OnStale.DROP
    attempts: Attempts = field(default_factory=Attempts)
    call_timeout_s: float | None = None
    """The timeout in seconds of each call that a rollout makes: to the model, a tool, the verifier.
    """
    rollout_timeout_s: float = 1800.0
    """The timeout in seconds of one attempt. A rollout that times out gets two attempts, together
    one hour, as a collection gives its only attempt: a training step waits for its slowest rollout.
    """
    endpoint_patience_s: float | None = 600.0
    """Seconds for which a model endpoint may refuse all requests (429, 5xx, no connection). Then
    the client ends, as for a rejected key: waiting and later submissions raise
    `IncompleteRollouts`. None: no limit. The default is longer than a weight update takes."""
    batch_timeout_s: float | None = None
    """The timeout in seconds of a submission. Rollouts that have not ended by then fail as a
    timeout."""
    in_flight: int = 256
    """The largest number of rollouts that run at once."""
    max_waiting: int = 1024
    """When this many outcomes wait to be taken, no other rollout starts until some are taken.
    Running rollouts still finish."""
    max_bytes: int = 1024 * MIB
    """The largest total size of rows in flight and waiting outcomes, in bytes. A rollout in flight
    counts as the size of its row, or of the largest recent outcome if that is more."""
    memory_reserve: float = 0.08
    """No rollout starts while less than this fraction of the memory limit (the cgroup's, or the
    machine's memory) is free. 0 turns this check off."""
    stuck_patience_s: float = 10.0
    """How long a server may stay stuck, in seconds, before the batches that need it end. A server
    is stuck when its event loop has not run for 10 seconds."""
    stuck_after_s: float = 5.0
    """The extra time in seconds that an attempt has to stop after its deadline or its cancellation.
    Then it is abandoned."""

    def checked(self) -> Self:
        """Return a checked copy, with enum members for policy names. Raises ConfigError: a value is
        invalid.
        """
        _require_all(self, _RULES)
        # A policy that is only spelt like one would be compared with none of them, and do nothing.
        checked = {name: chosen(name, getattr(self, name), kind) for name, kind in _POLICIES}
        if self.max_staleness is None and checked["on_stale"] in _WITHOUT_EFFECT:
            raise ConfigError(
                f"on_stale is {checked['on_stale'].value!r} and max_staleness is None, so no rollout "
                "ever becomes stale",
                hint="set max_staleness: the number of versions that weights may be old",
            )
        words, policies = self.on_incomplete, self.policies
        return dataclasses.replace(
            self,
            attempts=self.attempts.checked(),
            on_incomplete=words if isinstance(words, Mapping) else policies.others,
            **checked,
        )

    def for_batch(self, on_incomplete: PolicyWords | None, min_fraction: float | None) -> Self:
        """Return the settings for a submission with other policies; None keeps the client's value.

        Raises ConfigError: a value is invalid.
        """
        if on_incomplete is None and min_fraction is None:
            return self
        return dataclasses.replace(
            self,
            on_incomplete=self.on_incomplete if on_incomplete is None else on_incomplete,
            min_fraction=self.min_fraction if min_fraction is None else min_fraction,
        ).checked()

    @property
    def policies(self) -> Policies:
        """The policies from `on_incomplete`, for each class of failure."""
        return Policies.of(self.on_incomplete)


def settings_of(settings: ClientSettings | None) -> ClientSettings:
    """Return the checked settings, or the defaults for None. Raises ConfigError: a value is
    invalid.
    """
    if settings is None:
        return ClientSettings().checked()
    require("settings", settings, instance_of(ClientSettings, "a ClientSettings(in_flight=64, …)"))
    return settings.checked()


def checked_version(version: int, before: int | None) -> int:
    """Return a weight version. Raises ConfigError: it is invalid, or lower than the one `before`."""
    require("the weight version", version, whole(0))
    if before is not None and version < before:
        raise ConfigError(
            f"the weight version goes back from {before} to {version}",
            hint="count versions up, also after loading older weights: the version says which "
            "weights sampled a token, and the same number must not stand for two of them",
        )
    return version


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
_WITHOUT_EFFECT: Final = frozenset({OnStale.ABORT, OnStale.CONTINUE})
"""The policies that do nothing without `max_staleness`. `drop` is the default, so it is allowed."""
_MOST_DOUBLINGS: Final = 32


def _require_all(settings: object, rules: Mapping[str, Rule], prefix: str = "") -> None:
    problems = list(problems_in(settings, rules, prefix))
    if problems:
        raise ConfigError("; ".join(problems))
