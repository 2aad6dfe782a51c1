"""Reads the rows again that a remark of the report is about: cut answers, short solved ones, and
zeros.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.rows import rollout_rows
from palestra.analysis.report.short_answers import ShortAnswers
from palestra.errors import InputDataError
from palestra.metrics import RESPONSE, TaskIndex, are_same_number
from palestra.schema import (
    CREATE_PARAMS,
    EXPECTED_ANSWER,
    EXTRACTED_ANSWER,
    JUDGE_EVALUATIONS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    is_compressed,
)

_OF_CUT = frozenset({EXTRACTED_ANSWER, CREATE_PARAMS})
_OF_SHORT = frozenset({RESPONSE, JUDGE_EVALUATIONS})
_OF_ZEROS = frozenset({EXTRACTED_ANSWER, EXPECTED_ANSWER, TASK_INDEX, ROLLOUT_INDEX})
MOST_ROWS = 500
"""The largest number of rows that are read again for one remark."""
MOST_ZEROS = 2_000
MOST_BYTES_OF_ZEROS = 64 << 20
"""The largest number of rows with reward 0 that are read again, and of their bytes."""


@dataclass(frozen=True, slots=True)
class RefusedNumber:
    """A rollout with reward 0 whose answer equals the expected one as a number."""

    task: TaskIndex
    rollout: int
    extracted: str
    expected: str


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What only the rows themselves say of the answers that remarks are about."""

    limits: tuple[int, ...] = ()
    """The values of `max_output_tokens` in the rows of cut answers, ascending; empty without any."""
    cut_with_answer: int | None = None
    """How many cut answers have an extracted answer. None: there are too many to read, or no row
    has the field.
    """
    with_verdict: int = 0
    """How many short solved answers contain a verdict of their judge, such as `[[A=B]]`."""
    refused_numbers: tuple[RefusedNumber, ...] = ()
    """The rollouts with reward 0 whose answer is the expected number, among the first MOST_ZEROS."""


def read_row_facts(frame: RunFrame, short: ShortAnswers | None) -> RowFacts:
    """Read at most MOST_ROWS rows for each remark.

    Compressed files are not read: that would take as long as the whole run. Of rows that have
    changed since the frame was made, nothing is known.
    """
    if any(is_compressed(path) for path in frame.rollout_places.files):
        return RowFacts()
    cut = np.flatnonzero(frame.endings.truncated).tolist()
    short_rollouts = [] if short is None else short.rollouts.tolist()
    try:
        rows = list(_rows(frame, cut, _OF_CUT))
        refused_numbers = tuple(_refused_numbers(frame))
        with_verdict = sum(map(_has_verdict, _rows(frame, short_rollouts, _OF_SHORT)))
    except InputDataError:
        return RowFacts()
    is_counted = len(rows) == len(cut) and any(EXTRACTED_ANSWER in row for row in rows)
    return RowFacts(
        limits=tuple(sorted({limit for row in rows for limit in _limits(row)})),
        cut_with_answer=sum(row.get(EXTRACTED_ANSWER) not in (None, "") for row in rows)
        if is_counted
        else None,
        with_verdict=with_verdict,
        refused_numbers=refused_numbers,
    )


def _most_zeros(frame: RunFrame) -> int:
    """Return how many rows may be read, from their mean size."""
    try:
        size = sum(path.stat().st_size for path in frame.rollout_places.files)
    except OSError as error:
        raise InputDataError(f"cannot read the rollouts a second time: {error}") from error
    mean = size // max(len(frame.rollout_places), 1) + 1
    return min(MOST_ZEROS, MOST_BYTES_OF_ZEROS // mean)


def _refused_numbers(frame: RunFrame) -> Iterator[RefusedNumber]:
    zeros = np.flatnonzero(frame.rollouts.reward == 0)[: _most_zeros(frame)].tolist()
    for _, row in rollout_rows(frame, zeros, _OF_ZEROS):
        extracted, expected = row.get(EXTRACTED_ANSWER), row.get(EXPECTED_ANSWER)
        if are_same_number(extracted, expected):
            key = row[TASK_INDEX], row[ROLLOUT_INDEX]
            yield RefusedNumber(*key, str(extracted), str(expected))


def _rows(frame: RunFrame, rollouts: Sequence[int], fields: frozenset[str]) -> Iterator[JsonDict]:
    for _, row in rollout_rows(frame, rollouts[:MOST_ROWS], fields):
        yield row


def _limits(row: JsonDict) -> Iterator[int]:
    params = row.get(CREATE_PARAMS)
    limit = params.get("max_output_tokens") if isinstance(params, dict) else None
    if isinstance(limit, int) and not isinstance(limit, bool):
        yield limit


def _has_verdict(row: JsonDict) -> bool:
    """Whether the model's output contains the verdict that a judge gave to it."""
    evaluations, response = row.get(JUDGE_EVALUATIONS), row.get(RESPONSE)
    if not isinstance(evaluations, list) or not isinstance(response, dict):
        return False
    output = json.dumps(response.get("output"), ensure_ascii=False)
    labels = (e.get("verdict_label") for e in evaluations if isinstance(e, dict))
    return any(isinstance(label, str) and label and label in output for label in labels)
