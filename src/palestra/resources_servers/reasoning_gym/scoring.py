"""Score an answer with the library's scorer, and find the cause when the scorer fails.

If the scorer fails only on the model's answer, the answer cannot be parsed: the score is 0. If it
also fails on the row's own answer, the row is broken: there is no reward.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from tokenize import TokenError
from typing import Any

from palestra.resources_servers.reasoning_gym.library import (
    Scorer,
    UnknownFamily,
    scorer_of,
)

LONGEST_ANSWER = 100_000
"""The longest answer in characters. No task needs more, and scorers get slow with length."""

SCORED, UNKNOWN_FAMILY = "scored", "unknown_family"

OPEN, CLOSE = "<answer>", "</answer>"

UNPARSABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TokenError,
    TypeError,
    ValueError,
)
"""The exceptions that scorers raise for an answer in the wrong form."""

_EXPLOSIVE = {
    "coin_flip": re.compile(r"[eE][+-]?_?\d[\d_]{3}"),
    "rubiks_cube": re.compile(r"\d{4}"),
    "rush_hour": re.compile(r"\d{4}"),
}
"""Short texts that make the scorers of these families use gigabytes of memory or minutes."""


def _same_truth(answer: str, entry: Mapping[str, Any]) -> float:
    return float(answer.strip().casefold() == str(entry["answer"]).casefold())


_CORRECTED: Mapping[str, Scorer] = {"game_of_life_halting": _same_truth}
"""Scorers that replace the library's. The library's scorer of this family gives 1.0 to any text."""

_TUPLES = {"arc_agi": "output", "rearc": "output"}
"""Metadata fields that these scorers compare as tuples of tuples. JSON has only lists."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score, and the reason when the scorer could not parse the answer."""

    value: float
    error: str = ""


def extract_answer(text: str) -> str:
    """Return the text in the last `<answer>…</answer>`; without one, the whole text unchanged."""
    end = text.rfind(CLOSE)
    start = text.rfind(OPEN, 0, end) if end >= 0 else -1
    return text[start + len(OPEN) : end].strip() if start >= 0 else text


def score_in_worker(family: str, answer: str | None, entry: str) -> tuple[str, float, str]:
    """Score an answer in a worker process.

    Returns SCORED, the score, and an error text or an empty one. For an unknown family:
    UNKNOWN_FAMILY, 0.0, and a message with a hint on the next line. `answer`: None for the row's
    own answer. `entry`: JSON text, which may contain integers of any length.
    """
    row = json.loads(entry)
    try:
        score = score_answer(family, str(row["answer"]) if answer is None else answer, row)
    except UnknownFamily as error:
        return UNKNOWN_FAMILY, 0.0, f"{error.message}\n{error.hint}"
    return SCORED, score.value, score.error


def score_answer(family: str, answer: str, entry: Mapping[str, Any]) -> Score:
    """Score `answer` with a row's `question`, `answer` and `metadata`. May take long.

    Raises the scorer's own exception when it cannot score even the row's right answer.
    """
    scorer = _CORRECTED.get(family) or scorer_of(family)
    if len(answer) > LONGEST_ANSWER:
        return Score(0.0, f"the answer has {len(answer)} characters, more than {LONGEST_ANSWER}")
    explosive = _EXPLOSIVE.get(family)
    if explosive is not None and explosive.search(answer):
        return Score(0.0, "the answer holds a number that is too large to be one")
    row = _restored(family, entry)
    try:
        return Score(float(scorer(answer, row)))
    except UNPARSABLE as error:
        _check_row(scorer, row)
        return Score(0.0, f"{type(error).__name__}: {error}"[:500])


def _check_row(scorer: Scorer, row: Mapping[str, Any]) -> None:
    # As text, since that is what scorers get; "None" where the family has no right answer.
    scorer(str(row["answer"]), row)


def _restored(family: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    field = _TUPLES.get(family)
    metadata = entry["metadata"]
    if field is None or not isinstance(metadata.get(field), list):
        return entry
    return {**entry, "metadata": {**metadata, field: tuple(map(tuple, metadata[field]))}}
