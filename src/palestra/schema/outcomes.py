"""What the reward of a rollout is, and what gives one without a score one.

The last is decided here for every command that says it.
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
    """The reward that `value` is; None when it is no number, not finite, or too large for one."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        reward = float(value)
    except OverflowError:
        return None
    return reward if math.isfinite(reward) else None


def no_reward(value: Any) -> str:
    """`nan, which is no reward`: for a message, however large the value is."""
    try:
        excerpt = repr(value)
    except Exception:  # an author's own class, or a number with too many digits
        excerpt = f"a {type(value).__name__} that cannot be shown"
    if len(excerpt) > _LONGEST_SHOWN:
        excerpt = f"{excerpt[:_LONGEST_SHOWN]}… ({len(excerpt)} characters)"
    return f"{excerpt}, which is no reward"


RETRIABLE: Final = "retriable"
"""Field of a failures-file row: whether, attempts aside, another one could have helped."""

REVERIFY: Final = "palestra reverify --with-failures"
"""The command for kept answers, where the run's own arguments are not known."""
_KEPT: Final = "the model's answer is kept: "
_VERIFIES: Final = " verifies it without the model"


class Remedy(StrEnum):
    """What helps a rollout without a score, in the order in which to do it."""

    RESUME = "resume"
    """It has not ended: resuming runs it."""
    REVERIFY = "reverify"
    """Its verification failed, and the model's answer is kept."""
    MORE_ATTEMPTS = "more attempts"
    """Another attempt may succeed, and all allowed ones are spent."""
    FIX = "fix"
    """It fails again as long as its row and its environment stay as they are."""


def remedy_of(*, terminal: bool, retriable: bool, was_answered: bool) -> Remedy:
    """What helps a rollout by its last attempt; `was_answered`: an attempt's answer is kept."""
    if not terminal:
        return Remedy.RESUME
    if was_answered:
        return Remedy.REVERIFY
    return Remedy.MORE_ATTEMPTS if retriable else Remedy.FIX


@dataclass(frozen=True, slots=True)
class Unscored:
    """Rollouts without a score, counted by what helps."""

    counts: Mapping[Remedy, int] = field(default_factory=dict)
    reverify: str = ""
    """The command that scores kept answers; empty when it is not known."""

    def what_helps(self) -> str:
        """One clause for each remedy; empty when every rollout has a score."""
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
    """The rows of a failures file, noted in any order, as what helps their rollouts."""

    def __init__(self) -> None:
        self._last: dict[RolloutKey, _LastAttempt] = {}
        self._reverify: set[str] = set()

    def note(self, row: JsonObject) -> None:
        """Note one failed attempt. Raises KeyError for a row without a key."""
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
        """What helps those that are not in `scored`, and `missing` without any attempt."""
        counts = Counter(noted.remedy for key, noted in self._last.items() if key not in scored)
        counts[Remedy.RESUME] += missing
        return Unscored(counts, the_command(self._reverify))

    def keys(self) -> frozenset[RolloutKey]:
        """The rollouts that have a failed attempt."""
        return frozenset(self._last)


@dataclass(slots=True)
class _LastAttempt:
    number: int = 0
    terminal: bool = False
    retriable: bool = False
    answered: bool = False

    def take(self, number: int) -> bool:
        """Whether an attempt of that number is the last one noted so far."""
        self.number, before = max(self.number, number), self.number
        return number >= before

    @property
    def remedy(self) -> Remedy:
        return remedy_of(
            terminal=self.terminal, retriable=self.retriable, was_answered=self.answered
        )


def the_command(commands: Collection[str]) -> str:
    """The one command that all failures name; empty when they name none or several."""
    return next(iter(commands)) if len(commands) == 1 else ""


def hint_with(own_hint: str, reverify: str) -> str:
    """The hint of a failure whose answer is kept. `reverify`: the command that verifies it."""
    advice = f"{_KEPT}{reverify}{_VERIFIES}"
    return f"{own_hint}; {advice}" if own_hint else advice


def own_hint(hint: str) -> str:
    """A hint without what `hint_with` has added to it."""
    return hint.partition(_KEPT)[0].removesuffix("; ")


def reverify_in(hint: str) -> str:
    """The command that `hint_with` has added to a hint; empty without one."""
    return hint.partition(_KEPT)[2].removesuffix(_VERIFIES)
