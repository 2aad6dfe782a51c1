"""What an answer is worth: the library's scorer, with its failures told apart.

A scorer that trips over an answer says that the answer cannot be parsed: that is worth 0. One
that trips over the row's own answer as well says that the row is broken: that is no reward.
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
"""Characters; no family asks for more, and scorers slow down with length."""

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
"""What scorers raise when an answer does not have the form they expect."""

_EXPLOSIVE = {
    "coin_flip": re.compile(r"[eE][+-]?_?\d[\d_]{3}"),
    "rubiks_cube": re.compile(r"\d{4}"),
    "rush_hour": re.compile(r"\d{4}"),
}
"""A few characters that these families' scorers would turn into gigabytes or minutes."""


def _same_truth(answer: str, entry: Mapping[str, Any]) -> float:
    return float(answer.strip().casefold() == str(entry["answer"]).casefold())


_CORRECTED: Mapping[str, Scorer] = {"game_of_life_halting": _same_truth}
"""Scorers that stand in for the library's: this one's gives 1.0 to any text at all."""

_TUPLES = {"arc_agi": "output", "rearc": "output"}
"""Metadata that these families' scorers compare as tuples of tuples, which JSON has not."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score, and why the scorer could not parse the answer if it could not."""

    value: float
    error: str = ""


def extract_answer(text: str) -> str:
    """What stands in the last `<answer>…</answer>`; without one, the whole text as it is."""
    end = text.rfind(CLOSE)
    start = text.rfind(OPEN, 0, end) if end >= 0 else -1
    return text[start + len(OPEN) : end].strip() if start >= 0 else text


def score_in_worker(family: str, answer: str | None, entry: str) -> tuple[str, float, str]:
    """What a worker does: SCORED with the score and why there may be none, or UNKNOWN_FAMILY
    with a message and, on the next line, a hint.

    `answer`: None for the row's own. `entry`: JSON, in which integers are of any length.
    """
    row = json.loads(entry)
    try:
        score = score_answer(family, str(row["answer"]) if answer is None else answer, row)
    except UnknownFamily as error:
        return UNKNOWN_FAMILY, 0.0, f"{error.message}\n{error.hint}"
    return SCORED, score.value, score.error


def score_answer(family: str, answer: str, entry: Mapping[str, Any]) -> Score:
    """Score `answer` to a row's `question`, `answer` and `metadata`. May take long.

    Raises what the scorer raises on a row that it cannot even score the right answer of.
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
