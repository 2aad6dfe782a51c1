"""The fields of rollouts and tasks, from the joined columns of an index."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from palestra.analysis import solved_by_group
from palestra.metrics import REWARD, FloatArray, IntArray, describe, sum_by_group
from palestra.viewer.index.columns import (
    Column,
    Gathered,
    Labels,
    LongColumn,
    NumberColumn,
    Pointers,
    TextColumn,
)
from palestra.viewer.index.heaps import Heap
from palestra.viewer.index.joined import Join, Views
from palestra.viewer.index.layout import BETWEEN, NO_TEXT
from palestra.viewer.index.row_fields import FieldStates
from palestra.viewer.index.tables import RowTable

ENDS = ("scored", "not ended", "no reward")
SOLVED = ("never", "sometimes", "always")
_SCORED, _NOT_ENDED, _NO_REWARD = range(len(ENDS))


def rollout_columns(
    joined: Join, views: Views, fields: FieldStates, texts: Heap
) -> Mapping[str, Column]:
    """Return the fields of rollouts."""
    row_columns = _own_columns(joined, views, texts)
    columns: dict[str, Column] = {
        name: NumberColumn(
            Gathered(views[state.column], joined.result, np.nan), state.whole, state.boolean
        )
        for name, state in fields.numbers.items()
    }
    for name, field in (("tokens.in", "input_tokens"), ("tokens.out", "output_tokens")):
        if field in columns:
            columns[name] = columns[field]
    for name in ("tokens.in", "tokens.out", REWARD):
        columns.setdefault(name, NumberColumn(Gathered(np.empty(0), joined.result, np.nan)))
    for name, column in fields.texts.items():
        if name not in columns:
            columns[name] = TextColumn(Gathered(views[column], joined.result, NO_TEXT), texts)
    return row_columns | {
        name: column for name, column in columns.items() if name not in row_columns
    }


def _own_columns(joined: Join, views: Views, texts: Heap) -> dict[str, Column]:
    is_scored = _with_pointer(views["results.scored"], joined.result) == 1
    failure = joined.failure
    if len(joined.failure_of):
        failure = np.where(joined.result < 0, failure, np.int32(-1))

    def number(values: npt.NDArray[Any], *, boolean: bool = False) -> NumberColumn:
        return NumberColumn(Gathered(values, None, np.nan), whole=True, boolean=boolean)

    def of_result(name: str, *, boolean: bool = False) -> NumberColumn:
        source = Gathered(views[f"results.{name}"], joined.result, np.nan)
        return NumberColumn(source, whole=True, boolean=boolean)

    def of_failure(name: str) -> TextColumn:
        return TextColumn(Gathered(views[f"failures.{name}"], failure, NO_TEXT), texts)

    return {
        "task": _task_column(joined),
        "rollout": number(_rollout_indices(joined)),
        "outcome": _outcomes(joined, views, texts, is_scored),
        "agent": _first_of(joined, views, texts, "agent"),
        "family": _first_of(joined, views, texts, "family"),
        "class": of_failure("class"),
        "layer": of_failure("layer"),
        "cause": of_failure("cause"),
        "attempts": number(_attempts(joined)),
        "turns": of_result("turns"),
        "tools": TextColumn(
            Gathered(views["results.tools"], joined.result, NO_TEXT), texts, separator=BETWEEN
        ),
        "tools.count": of_result("calls"),
        "truncated": of_result("truncated", boolean=True),
        "empty": of_result("empty", boolean=True),
        "duplicate": number(joined.is_duplicate, boolean=True),
        "line": of_result("line"),
        "last_answer": LongColumn(
            Heap(views["answers.heap"], views["answers.ends"]), joined.result
        ),
        "error_message": LongColumn(Heap(views["messages.heap"], views["messages.ends"]), failure),
        "prompt": _prompts(joined, views, joined.task),
    }


def _rollout_indices(joined: Join) -> npt.NDArray[Any]:
    """Return the rollout index of each row; NaN without one."""
    if joined.keyed == len(joined):
        return joined.rollout
    return np.where(joined.task >= 0, joined.rollout, np.nan)


def _attempts(joined: Join) -> npt.NDArray[Any]:
    """Return how many attempts of each rollout have a row."""
    has_result = joined.result >= 0
    if not len(joined.failure_of):
        return has_result.view(np.int8)
    failed = np.bincount(joined.failure_of, minlength=len(joined)).astype(np.int32)
    return failed + has_result


def _task_column(joined: Join) -> Column:
    names = joined.tasks
    if any(isinstance(task, str) for task in names.after):
        every = [str(names.task(rank)) for rank in range(len(names))]
        return TextColumn(Gathered(joined.task, None, NO_TEXT), Labels(every))
    return NumberColumn(Gathered(names.numbers(), joined.task, np.nan), whole=True)


def _outcomes(
    joined: Join, views: Views, texts: Heap, is_scored: npt.NDArray[np.bool_]
) -> TextColumn:
    classes = views["failures.class"]
    codes = np.unique(classes[classes >= 0])
    names = texts.texts(codes.tolist())
    labels = [*ENDS, *sorted(set(names) - set(ENDS))]
    # one byte a rollout, unless there are many classes
    label_type = np.min_scalar_type(-len(labels))
    label_of = np.full(int(classes.max(initial=-1)) + 2, _NO_REWARD, label_type)
    label_of[codes] = [labels.index(name) for name in names]
    outcome = np.full(len(joined), _NOT_ENDED, label_type)
    has_failed = joined.failure >= 0
    outcome[has_failed] = label_of[classes[joined.failure[has_failed]]]
    outcome[joined.result >= 0] = _NO_REWARD
    outcome[is_scored] = _SCORED
    return TextColumn(Gathered(outcome, None, NO_TEXT), Labels(labels))


def _first_of(joined: Join, views: Views, texts: Heap, name: str) -> TextColumn:
    """Return a text of each rollout: of its result, else of its input, else of its last failure."""
    codes = np.full(len(joined), NO_TEXT, np.int32)
    for table, pointers in (
        ("failures", joined.failure),
        ("inputs", joined.input),
        ("results", joined.result),
    ):
        values = _with_pointer(views[f"{table}.{name}"], pointers)
        np.copyto(codes, values, where=values >= 0)
    if not (codes >= 0).any():  # a field that no row has takes no memory
        return TextColumn(Gathered(np.empty(0, np.int32), joined.task, NO_TEXT), texts)
    return TextColumn(Gathered(codes, None, NO_TEXT), texts)


def _with_pointer(column: npt.NDArray[Any], pointers: Pointers) -> npt.NDArray[np.int32]:
    return Gathered(column, pointers, NO_TEXT).values().astype(np.int32)


def _prompts(joined: Join, views: Views, tasks: Pointers) -> LongColumn:
    """Return the prompt of each of `tasks`, which are positions in the tasks."""
    pointers = np.append(prompt_rows(joined, views), np.int32(-1))
    return LongColumn(Heap(views["asked.heap"], views["asked.ends"]), pointers[tasks])


def prompt_rows(joined: Join, views: Views) -> npt.NDArray[np.int32]:
    """Return for each task the row of its prompt; -1 without one."""
    rows = np.full(len(joined.tasks), -1, np.int32)
    ranks = joined.ranks.ranks(views["prompts.task"])
    rows[ranks[::-1]] = np.arange(len(ranks))[::-1]
    return rows


def task_columns(
    joined: Join, rollouts: RowTable, columns: Mapping[str, Column], views: Views
) -> Mapping[str, Column]:
    """Return the fields of tasks."""
    count = len(joined.tasks)
    starts = np.searchsorted(joined.task[: joined.keyed], np.arange(count + 1))
    rewards = rollouts.numbers(REWARD)[: joined.keyed]
    statistics = _Statistics(rewards, starts)
    family = columns["family"]
    first_rows = starts[:-1]

    def number(values: FloatArray | IntArray, *, exact: bool = False) -> NumberColumn:
        return NumberColumn(Gathered(values, None, np.nan), whole=exact)

    tasks = np.arange(count)
    names: Column = columns["task"]
    if isinstance(names, NumberColumn):
        names = number(joined.tasks.numbers(), exact=True)
    elif isinstance(names, TextColumn):
        names = TextColumn(Gathered(tasks, None, NO_TEXT), names.names)
    result: dict[str, Column] = {
        "task": names,
        "n": number(np.diff(starts), exact=True),
        "scored": number(statistics.scored, exact=True),
        "solved": TextColumn(Gathered(statistics.solved_labels(), None, NO_TEXT), Labels(SOLVED)),
        "pass_rate": number(statistics.pass_rate),
        "mean": number(statistics.mean),
        "std": number(statistics.std),
        "learnability": number(statistics.pass_rate * (1 - statistics.pass_rate)),
        "prompt": _prompts(joined, views, tasks),
    }
    if isinstance(family, TextColumn):
        codes = family.codes(first_rows) if count else np.empty(0, np.int64)
        result["family"] = TextColumn(Gathered(codes, None, NO_TEXT), family.names)
    return result


class _Statistics:
    """The rewards of each task. A rollout without a reward counts in none of them."""

    def __init__(self, rewards: FloatArray, starts: IntArray) -> None:
        if len(starts) < 2:
            self.scored = self.solved = np.empty(0, np.int64)
            self.mean = self.std = self.pass_rate = np.empty(0)
            return
        self.scored = sum_by_group((~np.isnan(rewards)).astype(np.float64), starts).astype(np.int64)
        self.solved = solved_by_group(rewards, starts)
        described = describe(rewards, starts)
        self.mean, self.std = described.mean, described.std
        with np.errstate(invalid="ignore", divide="ignore"):
            self.pass_rate = np.where(self.scored > 0, self.solved / self.scored, np.nan)

    def solved_labels(self) -> IntArray:
        """Return positions in SOLVED; -1 for a task without a scored rollout."""
        labels = np.where(self.solved == 0, 0, np.where(self.solved == self.scored, 2, 1))
        return np.where(self.scored == 0, -1, labels)
