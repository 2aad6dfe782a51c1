"""`RewardRules`: what an environment says of its rewards, and `palestra verify-env` holds it to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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
"""The wrong answers that `verify-env` makes up, by kind: what each is."""


@dataclass(frozen=True, slots=True)
class RewardRules:
    """What a reward may be. The defaults are those of a verifier that knows right and wrong."""

    lowest: float = 0.0
    highest: float = 1.0
    """What a right answer gets."""
    wrong: float = 0.0
    """The most that a wrong answer may get: more than `lowest` where there is partial credit."""
    same_for_all: str = ""
    """Why every answer gets the same reward, where that is meant."""
    unsure: Mapping[str, str] = field(default_factory=dict)
    """Kinds of wrong answers that `verify-env` makes up and that may be right here, each with the
    reason: {"truncated": "any text is a poem"}. `WRONG_KINDS` has them all. List wrong answers of
    your own instead, in `data/verifier_cases.jsonl`."""
    judge_words: tuple[str, str] | None = None
    """What a judge writes to award and to refuse; None: the usual ones are tried."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a kind that there is not: it would leave out nothing."""
        unknown = [kind for kind in self.unsure if kind not in WRONG_KINDS]
        if unknown:
            near = did_you_mean(unknown[0], WRONG_KINDS) if len(unknown) == 1 else ""
            raise ConfigError(
                f"reward_rules: unsure has no kind {', '.join(map(repr, unknown))}{near}",
                hint=f"kinds: {', '.join(WRONG_KINDS)}",
            )
