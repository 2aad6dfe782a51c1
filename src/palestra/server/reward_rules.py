"""`RewardRules`: an environment's declared rewards, which `palestra verify-env` checks."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Final, Self

from palestra.config import did_you_mean
from palestra.errors import ConfigError

WRONG_KINDS: Final[Mapping[str, str]] = {
    "empty": "nothing, or blanks",
    "garbage": "texts that answer nothing",
    "echo": "the prompt itself",
    "truncated": "a right answer that is cut off, or whose last calls are missing",
    "wrong": "a right answer with its value, or a call's arguments or name, changed",
    "mentioned": "a sentence that names the right value only to deny it",
    "other": "another task's right answer",
    "hedged": "all tasks' right values at once",
    "prompt": "garbage or nothing, where the prompt shows the right answer",
}
"""The kinds of wrong answers that `verify-env` makes up, each with a description."""


ROUNDING: Final = 1e-9
"""How far a reward may lie outside the limits without notice."""


class _Default(float):
    """A limit that the author did not write, which differs from the same number written."""


@dataclass(frozen=True, slots=True)
class RewardRules:
    """The rewards that a verifier may return. By default 1 for a right and 0 for a wrong answer; with
    weighted components, the sum of the positive weights, and the sum of the negative ones at least.
    """

    lowest: float = _Default(0.0)
    highest: float = _Default(1.0)
    """The reward of a right answer."""
    wrong: float = 0.0
    """The highest reward of a wrong answer; more than `lowest` if there is partial credit."""
    same_for_all: str = ""
    """The reason why every answer gets the same reward, if that is intended."""
    unsure: Mapping[str, str] = field(default_factory=dict)
    """Kinds of made-up wrong answers that may be right in this environment, each with the reason:
    {"truncated": "any text is a poem"}. `verify-env` skips them; `WRONG_KINDS` lists all kinds.
    List your own wrong answers in `data/verifier_cases.jsonl` instead."""
    judge_words: tuple[str, str] | None = None
    """The judge's replies that award and refuse a reward; None: the usual replies are tried."""

    def __post_init__(self) -> None:
        """Raise ConfigError: a limit is no number, or `unsure` names an unknown kind, which would
        exclude nothing.
        """
        for name in ("lowest", "highest", "wrong"):
            limit = getattr(self, name)
            if isinstance(limit, bool) or not isinstance(limit, Real) or math.isnan(limit):
                raise ConfigError(
                    f"reward_rules: {name} must be a number, not {limit!r:.80}",
                    hint=f"write RewardRules({name}=1)",
                )
        if not isinstance(self.unsure, Mapping):
            raise ConfigError(
                f"reward_rules: unsure must be reasons by kind, not {self.unsure!r:.80}",
                hint='write RewardRules(unsure={"truncated": "any text is a poem"})',
            )
        unknown = [kind for kind in self.unsure if kind not in WRONG_KINDS]
        if unknown:
            near = did_you_mean(unknown[0], WRONG_KINDS) if len(unknown) == 1 else ""
            raise ConfigError(
                f"reward_rules: `unsure` names an unknown kind: {', '.join(map(repr, unknown))}{near}",
                hint=f"kinds: {', '.join(WRONG_KINDS)}",
            )

    def allow(self, reward: float) -> bool:
        """Whether a reward lies within the limits. A sum of weights may be off by a rounding."""
        return self.lowest - ROUNDING <= reward <= self.highest + ROUNDING

    def for_weights(self, weights: Iterable[float]) -> Self:
        """Return the rules for a sum of components from 0 to 1 with these weights. A limit that the
        author wrote stays, and without weights both stay.
        """
        numbers = [float(weight) for weight in weights]
        if not numbers:
            return self
        rules = self
        if isinstance(self.lowest, _Default):
            rules = replace(rules, lowest=math.fsum(weight for weight in numbers if weight < 0))
        if isinstance(self.highest, _Default):
            rules = replace(rules, highest=math.fsum(weight for weight in numbers if weight > 0))
        return rules
