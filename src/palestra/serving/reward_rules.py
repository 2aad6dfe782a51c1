"""`RewardRules`: what an environment says of its rewards, and `palestra verify-env` holds it to."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    reason: {"truncated": "any text is a poem"}. List wrong answers of your own instead, in
    `data/verifier_cases.jsonl`."""
    judge_words: tuple[str, str] | None = None
    """What a judge writes to award and to refuse; None: the usual ones are tried."""
