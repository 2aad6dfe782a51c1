"""Check rewards, and decide which remedy gives an unscored rollout a score.

All commands use the remedies of this module.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any, Final

from palestra.schema.json_types import JsonObject
from palestra.schema.protocol import REWARD_COMPONENTS
from palestra.schema.reverification import (
    REVERIFY,
    ReverifyCommand,
    recorded_command,
    the_command,
)
from palestra.schema.rows import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    ROLLOUT_INDEX,
    TASK_INDEX,
    RolloutKey,
)
from palestra.schema.tokens import field_of

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


def is_infinite(value: Any) -> bool:
    """Whether `value` is a number, of any library, that is NaN or infinite."""
    try:
        return isinstance(value, Real | Decimal) and not math.isfinite(value)
    except (OverflowError, ValueError):  # an integer beyond every float, a signaling NaN
        return True


def infinite_component(result: Any) -> str:
    """Return a message about the first component of a result's reward that is NaN or infinite;
    empty without one.
    """
    components = field_of(result, REWARD_COMPONENTS)
    values = components.items() if isinstance(components, Mapping) else ()
    wrong = (name for name, value in values if is_infinite(value))
    return next((f"the component {name!r}: {no_reward(components[name])}" for name in wrong), "")


REWARD_ADVICE: Final = "return a finite number as the reward, and for each of its components"
"""The hint of an error about a reward that `reward_problem` refuses."""


def reward_problem(result: Any) -> str:
    """Return a message about a result's reward that is no finite number, else about its first
    component that is NaN or infinite; empty without a problem.
    """
    reward = field_of(result, "reward")
    return no_reward(reward) if finite_reward(reward) is None else infinite_component(result)


def no_reward(value: Any) -> str:
    """Return a message such as `nan, which is not a reward`. Long values are shortened."""
    return f"{short_repr(value)}, which is not a reward"


def short_repr(value: Any) -> str:
    """Return the `repr` of an author's value, shortened when it is long, without addresses in memory:
    equal failures have equal messages.
    """
    try:
        text = _ADDRESS.sub("", repr(value))
    except Exception:  # an author's own class, or a number with too many digits
        return f"a {type(value).__name__} that cannot be shown"
    if len(text) > _LONGEST_SHOWN:
        return f"{text[:_LONGEST_SHOWN]}… ({len(text)} characters)"
    return text


RETRIABLE: Final = "retriable"
"""The field of a failures-file row that states whether another attempt could help, apart from the
maximum number of attempts."""

RETRIABLE_CLASSES: Final = frozenset({"infra_error", "policy_error", "judge_error", "timeout"})
"""The failure classes for which another attempt may succeed. Code that raised an exception would
raise it again."""


def is_retriable(recorded: Any, failure_class: Any) -> bool:
    """Return whether another attempt could help. `recorded`: the row's field `RETRIABLE`; where a
    row does not have it, as in older runs, the failure class decides.
    """
    if isinstance(recorded, bool):
        return recorded
    return isinstance(failure_class, str) and failure_class in RETRIABLE_CLASSES


def may_verify_again(failure_class: str) -> bool:
    """Whether a kept response may be scored once the verifier is fixed. When its row was refused,
    the row must be fixed first.
    """
    return failure_class != _ROW_REFUSED


_ROW_REFUSED: Final = "data_error"
SELECT_FAILED: Final = "palestra select RUN --failed --out FILE"
"""The command that writes the tasks without a score. A command that knows the run writes its path for
`RUN`, and a new file for `FILE`."""
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
_VALUE: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|\d+")
"""What differs between messages of one cause: quoted values and numbers."""


_MOST_FILES: Final = 3


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


def remedy_of(*, terminal: bool, retriable: bool, was_answered: bool, failure_class: str) -> Remedy:
    """Return the remedy for a rollout from its last attempt. `was_answered`: the model's response
    of some attempt is kept.
    """
    if not terminal:
        return Remedy.RESUME
    if was_answered and may_verify_again(failure_class):
        return Remedy.REVERIFY
    return Remedy.MORE_ATTEMPTS if retriable else Remedy.FIX


@dataclass(frozen=True, slots=True)
class Unscored:
    """The number of rollouts without a score, by remedy."""

    counts: Mapping[Remedy, int] = field(default_factory=dict)
    reverify: ReverifyCommand | None = None
    """The command that verifies kept responses; None when unknown."""
    only: Collection[str] = ()
    """The rollouts that the advice is about, such as `17:3`; empty when it is about a whole run."""
    changed_code: Sequence[str] = ()
    """The files of the run's servers that have changed since the run began. A resume is refused then,
    unless servers that run already have the earlier code."""

    @property
    def has_resume(self) -> bool:
        """Whether a resume helps some of the rollouts."""
        return any(self.counts.get(remedy) for remedy in (Remedy.RESUME, Remedy.MORE_ATTEMPTS))

    def what_helps(self) -> str:
        """Return the advice as one text; empty when every rollout has a score."""
        return "; ".join(self.advice())

    def advice(self) -> list[str]:
        """Return one clause of advice per remedy; none when every rollout has a score."""
        present = (remedy for remedy in Remedy if self.counts.get(remedy))
        return [self._clause(remedy, self.counts[remedy]) for remedy in present]

    def _clause(self, remedy: Remedy, count: int) -> str:
        match remedy:
            case Remedy.RESUME:
                have = "has" if count == 1 else "have"
                return (
                    "the command that collected the run, with --resume, runs "
                    f"{count} that {have} not ended{self._refusal()}"
                )
            case Remedy.REVERIFY:
                return self._of_kept_answers(count, self.reverify or ReverifyCommand(REVERIFY))
            case Remedy.MORE_ATTEMPTS:
                return (
                    f"--resume with a higher --max-attempts tries {count} again that may succeed"
                    f"{self._refusal()}"
                )
            case Remedy.FIX:
                need = "needs" if count == 1 else "need"
                return (
                    f"{count} {need} a fixed row or environment; `{SELECT_FAILED}` writes their tasks "
                    "for a run of their own, which keeps what is scored"
                )

    def _refusal(self) -> str:
        """Return when a resume is refused; empty when nothing is known against it."""
        if not self.changed_code:
            return ""
        hidden = len(self.changed_code) - _MOST_FILES
        others = f" and {hidden} more" if hidden > 0 else ""
        names = f"{', '.join(self.changed_code[:_MOST_FILES])}{others}"
        return f", but is refused with the changed code of {names}"

    def _of_kept_answers(self, count: int, command: ReverifyCommand) -> str:
        """Return the advice for rollouts that a verification alone scores."""
        text = command.text_for(self.only)
        if command.needs_session:
            have = "rollout has its answer" if count == 1 else "rollouts have their answers"
            return (
                f"{count} {have} kept, but verify needs the live session: once it is fixed, "
                f"`{SELECT_FAILED}` writes the tasks for new rollouts; where verify does without, its "
                "class says how (`REVERIFY_MODE = ReverifyMode.STATELESS` or `.REPLAY_TOOLS`; "
                f"`reverify_mode` in a server of Palestra), and {text} scores the kept answers"
            )
        judge = " (the judge's model, say)" if command.names_judge else ""
        return (
            f"once the verifier (or judge), and any wrong setting in the command{judge}, is fixed, "
            f"{text} scores {count} by the kept answers, without the model; --resume alone does not "
            "run them"
        )


class FailedAttempts:
    """The failed attempts of a failures file, added in any order, from which the remedies follow."""

    def __init__(self) -> None:
        self._last: dict[RolloutKey, _LastAttempt] = {}
        self._commands: set[ReverifyCommand] = set()

    def note(self, row: JsonObject) -> None:
        """Add one failed attempt. Raises KeyError: the row has no task or rollout index."""
        key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
        attempt = row.get("attempt")
        noted = self._last.setdefault(key, _LastAttempt())
        if noted.take(attempt if isinstance(attempt, int) else 1):
            noted.terminal = row.get(FAILURE_TERMINAL) is True
            noted.retriable = is_retriable(row.get(RETRIABLE), row.get(FAILURE_CLASS))
            noted.failure_class = str(row.get(FAILURE_CLASS))
        if isinstance(row.get("response"), Mapping):
            noted.answered = True
            if command := recorded_command(row):
                self._commands.add(command)

    def unscored(
        self,
        *,
        scored: Container[RolloutKey] = (),
        missing: int = 0,
        only: Collection[str] = (),
    ) -> Unscored:
        """Count the remedies of the rollouts not in `scored`, plus `missing` rollouts without any
        attempt. `only`: the names of the rollouts, when these are not a whole run.
        """
        counts = Counter(noted.remedy for key, noted in self._last.items() if key not in scored)
        counts[Remedy.RESUME] += missing
        return Unscored(counts, the_command(self._commands), only)

    def keys(self) -> frozenset[RolloutKey]:
        """Return the rollouts with a failed attempt."""
        return frozenset(self._last)


@dataclass(slots=True)
class _LastAttempt:
    number: int = 0
    terminal: bool = False
    retriable: bool = False
    answered: bool = False
    failure_class: str = ""

    def take(self, number: int) -> bool:
        """Record the attempt number. Return whether this attempt is the last one so far."""
        self.number, before = max(self.number, number), self.number
        return number >= before

    @property
    def remedy(self) -> Remedy:
        return remedy_of(
            terminal=self.terminal,
            retriable=self.retriable,
            was_answered=self.answered,
            failure_class=self.failure_class,
        )


def failure_kind(failure_class: str, cause: str, message: str) -> tuple[str, str, str]:
    """Return what groups failures: class, cause, and the message without quoted values and
    numbers.
    """
    return failure_class, cause, _VALUE.sub("#", message)
