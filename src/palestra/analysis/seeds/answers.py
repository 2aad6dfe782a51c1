"""Reads the extracted answers of rollouts, and scores majority votes among k of them for many tasks
at once.
"""

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.scan import RowReader, decode_value, split_row
from palestra.metrics import FloatArray, IntArray, answer_text
from palestra.schema import EXTRACTED_ANSWER

NO_ANSWER = -1


@dataclass(frozen=True, slots=True)
class SeedAnswers:
    """The answer code of each scored rollout, in frame order, or NO_ANSWER.

    `extracted`: whether any row has the field of extracted answers; without it, there are no
    majority votes. `model`: the model named by the responses, or None.
    """

    codes: IntArray
    extracted: bool
    model: str | None


class _Response(msgspec.Struct):
    model: Any = None


def read_answers(frame: RunFrame) -> SeedAnswers:
    """Read the answers of a run from its files, which are read again.

    Two answers are equal when their `answer_text` is equal. null counts as no answer.
    """
    row_places = frame.rollout_places
    codes = np.full(len(row_places), NO_ANSWER)
    numbers: dict[str, int] = {}
    extracted, model = False, None
    for file, path in enumerate(row_places.files):
        in_file = np.flatnonzero(row_places.file == file)
        file_answers = _File(path, numbers)
        codes[in_file] = file_answers.codes[
            np.searchsorted(file_answers.offsets, row_places.offset[in_file])
        ]
        extracted = extracted or file_answers.extracted
        model = model or file_answers.model
    return SeedAnswers(codes, extracted, model)


class _File:
    """The answers of one rollouts file, in row order. `numbers`: the codes of the answers found so
    far.
    """

    def __init__(self, path: Path, numbers: dict[str, int]) -> None:
        offsets, codes = array("q"), array("q")
        self.extracted, self.model = False, None
        for block in RowReader().blocks(path, torn=[], may_be_empty=True):
            self.extracted = self.extracted or EXTRACTED_ANSWER in block.fields
            self.model = self.model or _model(block.texts[0])
            offsets.extend(block.offsets)
            for at, value in enumerate(block.field(EXTRACTED_ANSWER)):
                codes.append(_code(value, block.texts[at], numbers))
        self.offsets, self.codes = np.array(offsets), np.array(codes, dtype=np.int64)


def _code(value: object, text: bytes, numbers: dict[str, int]) -> int:
    if value is None:
        return NO_ANSWER
    if not isinstance(value, str):
        # objects and lists come from the reader without their contents
        fields = split_row(text) or {}
        value = decode_value(fields[EXTRACTED_ANSWER])
    return numbers.setdefault(answer_text(value), len(numbers))


def majority_of_rows(answers: IntArray, scores: FloatArray) -> FloatArray:
    """Return `majority_at_k` of each row of `answers` and `scores`, where k is the number of
    columns.
    """
    voted = answers != NO_ANSWER
    row, _ = np.nonzero(voted)
    ballot = np.column_stack([row, answers[voted]])
    candidates, of, votes = np.unique(ballot, axis=0, return_inverse=True, return_counts=True)
    worth = np.bincount(of, weights=scores[voted], minlength=len(votes)) / votes
    row = candidates[:, 0]
    most_votes = np.zeros(len(answers), dtype=np.int64)
    np.maximum.at(most_votes, row, votes)
    wins = votes == most_votes[row]
    total = np.bincount(row[wins], weights=worth[wins], minlength=len(answers))
    winners = np.bincount(row[wins], minlength=len(answers))
    return np.asarray(total / np.maximum(winners, 1))


def _model(text: bytes) -> str | None:
    """Return the model that a row's response names, or None."""
    fields = split_row(text) or {}
    try:
        model = msgspec.json.decode(fields["response"], type=_Response).model
    except (KeyError, msgspec.MsgspecError):
        return None
    return model if isinstance(model, str) and model else None
