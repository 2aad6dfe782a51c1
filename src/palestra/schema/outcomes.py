"""Check rewards, and decide which remedy gives an unscored rollout a score.

All commands use the remedies of this module.
"""

import math
from collections import Counter
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from palestra.schema.json_types import JsonObject
from palestra.schema.rows import FAILURE_TERMINAL, ROLLOUT_INDEX, TASK_INDEX, RolloutKey

_LONGEST_SHOWN = 200


def finite_reward(value: Any) -> float | None:
    """Return `value` as a reward; None when it is not a number, not finite, or too large for a
    float.
    """
    if not isinstance(value, bool | int | float):
        return None
    try:
        reward = float(value)
    except OverflowError:
        return None
    return reward if math.isfinite(reward) else None


def no_reward(value: Any) -> str:
    """Return a message such as `nan, which is not a reward`. Long values are shortened."""
    try:
        excerpt = repr(value)
    except Exception:  # an author's own class, or a number with too many digits
        excerpt = f"a {type(value).__name__} that cannot be shown"
    if len(excerpt) > _LONGEST_SHOWN:
        excerpt = f"{excerpt[:_LONGEST_SHOWN]}… ({len(excerpt)} characters)"
    return f"{excerpt}, which is not a reward"


RETRIABLE: Final = "retriable"
"""The field of a failures-file row that states whether another attempt could help, apart from the
maximum number of attempts."""

REVERIFY: Final = "`palestra reverify --with-failures`"
"""The command that verifies kept responses, used when the run's own arguments are unknown. It is
quoted, so that an error shows it in the words of the program that the user called."""
_KEPT: Final = "the model's answer is kept: "
_VERIFIES: Final = " verifies it without the model"


class Remedy(StrEnum):
    """The remedies for a rollout without a score, in the order in which to apply them."""

    RESUME = "resume"
    """The rollout has not ended; resuming the run continues it."""
    REVERIFY = "reverify"
    """The verification failed, and the model's response is kept."""
    MORE_ATTEMPTS = "more attempts"
    """Another attempt may succeed, but all allowed attempts are used."""
    FIX = "fix"
    """Another attempt would fail too, unless the row or the environment is fixed."""


def remedy_of(*, terminal: bool, retriable: bool, was_answered: bool) -> Remedy:
    """Return the remedy for a rollout from its last attempt. `was_answered`: the model's response
    of some attempt is kept.
    """
    if not terminal:
        return Remedy.RESUME
    if was_answered:
        return Remedy.REVERIFY
    return Remedy.MORE_ATTEMPTS if retriable else Remedy.FIX


@dataclass(frozen=True, slots=True)
class Unscored:
    """The number of rollouts without a score, by remedy."""

    counts: Mapping[Remedy, int] = field(default_factory=dict)
    reverify: str = ""
    """The command that verifies kept responses; empty when unknown."""

    def what_helps(self) -> str:
        """Return one clause of advice per remedy; empty when every rollout has a score."""
        present = (remedy for remedy in Remedy if self.counts.get(remedy))
        return "; ".join(self._clause(remedy, self.counts[remedy]) for remedy in present)

    def _clause(self, remedy: Remedy, count: int) -> str:
        match remedy:
            case Remedy.RESUME:
                return f"--resume runs {count} that {'has' if count == 1 else 'have'} not ended"
            case Remedy.REVERIFY:
                return (
                    f"once the verifier (or judge) is fixed, {self.reverify or REVERIFY} scores "
                    f"{count} by the kept answers, without the model; --resume does not run them"
                )
            case Remedy.MORE_ATTEMPTS:
                return (
                    "--resume with a higher --max-attempts (max_attempts) tries "
                    f"{count} again that may succeed"
                )
            case Remedy.FIX:
                need = "needs" if count == 1 else "need"
                return f"{count} {need} a fixed row or environment, then --overwrite starts afresh"


class FailedAttempts:
    """The failed attempts of a failures file, added in any order, from which the remedies follow."""

    def __init__(self) -> None:
        self._last: dict[RolloutKey, _LastAttempt] = {}
        self._reverify: set[str] = set()

    def note(self, row: JsonObject) -> None:
        """Add one failed attempt. Raises KeyError: the row has no task or rollout index."""
        key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
        attempt = row.get("attempt")
        noted = self._last.setdefault(key, _LastAttempt())
        if noted.take(attempt if isinstance(attempt, int) else 1):
            noted.terminal = row.get(FAILURE_TERMINAL) is True
            noted.retriable = row.get(RETRIABLE) is True
        if isinstance(row.get("response"), Mapping):
            noted.answered = True
            self._reverify.add(reverify_in(str(row.get("hint") or "")))

    def unscored(self, *, scored: Container[RolloutKey] = (), missing: int = 0) -> Unscored:
        """Count the remedies of the rollouts not in `scored`, plus `missing` rollouts without any
        attempt.
        """
        counts = Counter(noted.remedy for key, noted in self._last.items() if key not in scored)
        counts[Remedy.RESUME] += missing
        return Unscored(counts, the_command(self._reverify))

    def keys(self) -> frozenset[RolloutKey]:
        """Return the rollouts with a failed attempt."""
        return frozenset(self._last)


@dataclass(slots=True)
class _LastAttempt:
    number: int = 0
    terminal: bool = False
    retriable: bool = False
    answered: bool = False

    def take(self, number: int) -> bool:
        """Record the attempt number. Return whether this attempt is the last one so far."""
        self.number, before = max(self.number, number), self.number
        return number >= before

    @property
    def remedy(self) -> Remedy:
        return remedy_of(
            terminal=self.terminal, retriable=self.retriable, was_answered=self.answered
        )


def the_command(commands: Collection[str]) -> str:
    """Return the only command in `commands`; empty when there is none or more than one."""
    return next(iter(commands)) if len(commands) == 1 else ""


def hint_with(own_hint: str, reverify: str) -> str:
    """Return a failure's hint with the command that verifies the kept response. `reverify`: that
    command.
    """
    advice = f"{_KEPT}{reverify}{_VERIFIES}"
    return f"{own_hint}; {advice}" if own_hint else advice


def own_hint(hint: str) -> str:
    """Return a hint without the text that `hint_with` added."""
    return hint.partition(_KEPT)[0].removesuffix("; ")


def reverify_in(hint: str) -> str:
    """Return the command that `hint_with` added to a hint; empty without one."""
    return hint.partition(_KEPT)[2].removesuffix(_VERIFIES)
