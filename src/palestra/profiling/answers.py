"""What rollouts answered, and what a vote among k of them is worth, for many tasks at once."""

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from palestra.profiling.columns import REWARD, ROLLOUT_INDEX, TASK_INDEX, FloatArray, IntArray
from palestra.profiling.frame import RunFrame
from palestra.profiling.scan import decode_value, scan_rows

ANSWER = "extracted_answer"
NO_ANSWER = -1


@dataclass(frozen=True, slots=True)
class Answers:
    """Per scored rollout, in the order of the frame: the number of its answer, or NO_ANSWER.

    `extracted`: whether any row has the field at all; without it there is nothing to vote with.
    `model`: the model that the responses name, if they do.
    """

    codes: IntArray
    extracted: bool
    model: str | None


class _Response(msgspec.Struct):
    model: Any = None


def read_answers(rollouts: Path, frame: RunFrame) -> Answers:
    """Read the answers of a run that was loaded from the same file.

    Answers are compared as text, so that any JSON value can be voted for; null is no answer.
    """
    rank = {task: place for place, task in enumerate(frame.requests.tasks)}
    tasks, indices, codes = array("q"), array("q"), array("q")
    known: dict[bytes, int] = {}
    numbers: dict[str, int] = {}
    extracted, model = False, None
    for _, row in scan_rows(rollouts, notices=[]):
        if REWARD not in row:
            continue
        tasks.append(rank[decode_value(row[TASK_INDEX])])
        indices.append(decode_value(row[ROLLOUT_INDEX]))
        raw = bytes(row[ANSWER]) if ANSWER in row else b"null"
        extracted = extracted or ANSWER in row
        if raw not in known:
            value = decode_value(msgspec.Raw(raw))
            text = value if isinstance(value, str) else repr(value)
            known[raw] = NO_ANSWER if value is None else numbers.setdefault(text, len(numbers))
        codes.append(known[raw])
        if model is None and "response" in row:
            model = _model(row["response"])
    order = np.lexsort((np.array(indices), np.array(tasks)))
    return Answers(np.array(codes, dtype=np.int64)[order], extracted, model)


def majority_of_rows(answers: IntArray, scores: FloatArray) -> FloatArray:
    """`majority_at_k` of each row of two matrices, k their width."""
    task, _ = np.nonzero(answers != NO_ANSWER)
    voted = answers != NO_ANSWER
    ballots, worth = answers[voted], scores[voted]
    order = np.lexsort((worth, ballots, task))
    task, ballots, worth = task[order], ballots[order], worth[order]
    changes = (np.diff(task) != 0) | (np.diff(ballots) != 0) | (np.diff(worth) != 0)
    first = np.flatnonzero(np.concatenate([[True], changes])) if len(task) else task
    votes = np.diff(np.concatenate([first, [len(task)]]))
    of = task[first]
    most = np.zeros(len(answers), dtype=np.int64)
    np.maximum.at(most, of, votes)
    wins = votes == most[of]
    total = np.bincount(of[wins], weights=worth[first][wins], minlength=len(answers))
    winners = np.bincount(of[wins], minlength=len(answers))
    return np.asarray(total / np.maximum(winners, 1))


def _model(response: msgspec.Raw) -> str | None:
    try:
        model = msgspec.json.decode(response, type=_Response).model
    except msgspec.MsgspecError:
        return None
    return model if isinstance(model, str) and model else None
