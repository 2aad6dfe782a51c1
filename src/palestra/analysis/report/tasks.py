"""Computes the report's columns of values per task, and the short lists of notable tasks. Does no
I/O.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.facts import is_binary, time_field
from palestra.analysis.report.markup import number, visible_line
from palestra.analysis.report.rows import shown_order
from palestra.analysis.task_rows import LENGTH_FIELD, solved_by_task
from palestra.analysis.views import reward_range
from palestra.metrics import REWARD, BoolArray, FloatArray, IntArray, Rollouts, TaskIndex, describe
from palestra.schema import JsonDict

LISTED = 6
FEW_ROLLOUTS = 4
"""With fewer rollouts per task, pass rates are too coarse to choose tasks by."""
RATE_STRATA = 10


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """Columns with one value per task with a scored rollout, in task order. The *position* of a
    task is its index in these columns.

    A value is NaN where a task lacks the field.
    """

    names: Sequence[TaskIndex]
    requested: IntArray
    trials: IntArray
    solved: IntArray
    mean: FloatArray
    std: FloatArray
    tokens: FloatArray | None
    """The mean number of output tokens per rollout."""
    tokens_std: FloatArray | None
    time: FloatArray | None
    """The mean of the field with the duration of a rollout."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def rate(self) -> FloatArray:
        return self.solved / self.trials

    @property
    def missing(self) -> IntArray:
        """The number of requested rollouts without a score, per task."""
        return self.requested - self.trials


@dataclass(frozen=True, slots=True)
class TaskList:
    """The first few tasks when sorted by one measure."""

    title: str
    why: str
    """A sentence that explains the list and what to do about its tasks."""
    positions: Sequence[int]
    figures: Sequence[str]
    """The formatted measure of each task."""


def task_columns(frame: RunFrame) -> TaskColumns:
    rollouts = frame.rollouts
    reward = describe(rollouts.columns.values[REWARD], rollouts.starts)
    tokens = _described(rollouts, LENGTH_FIELD)
    time = _described(rollouts, time_field(rollouts))
    return TaskColumns(
        names=rollouts.tasks,
        requested=np.diff(frame.requests.starts)[frame.profiled],
        trials=rollouts.per_task,
        solved=solved_by_task(rollouts),
        mean=reward.mean,
        std=reward.std,
        tokens=tokens and tokens[0],
        tokens_std=tokens and tokens[1],
        time=time and time[0],
    )


def task_lists(tasks: TaskColumns, rollouts: Rollouts) -> list[TaskList]:
    """Return the lists of notable tasks that are not empty."""
    lists = [
        *_by_pass_rate(tasks),
        _most_variable(tasks, rollouts),
        _slowest(tasks, rollouts),
        _most_missing(tasks),
    ]
    return [task_list for task_list in lists if task_list is not None and task_list.positions]


def by_interest(tasks: TaskColumns, lists: Sequence[TaskList]) -> list[int]:
    """Return every position once, in order of interest: first the listed tasks, one from each list
    in turn, then the others, one from each pass-rate class in turn.
    """
    stratum = np.ceil(tasks.rate * RATE_STRATA).astype(np.int64)
    strata = [np.flatnonzero(stratum == number).tolist() for number in range(RATE_STRATA + 1)]
    return list(
        dict.fromkeys(
            [*_in_turns([task_list.positions for task_list in lists]), *_in_turns(strata)]
        )
    )


def _in_turns(groups: Sequence[Sequence[int]]) -> Iterator[int]:
    for turn in range(max(map(len, groups), default=0)):
        yield from (group[turn] for group in groups if turn < len(group))


def _by_pass_rate(tasks: TaskColumns) -> Iterator[TaskList]:
    rate = tasks.rate
    # one of two says nothing about how often a task is solved
    mixed = (rate > 0) & (rate < 1) & (tasks.trials >= FEW_ROLLOUTS)
    fractions = [
        f"{c}/{n}" for c, n in zip(tasks.solved.tolist(), tasks.trials.tolist(), strict=True)
    ]
    chosen = learnable = _first(np.lexsort((-tasks.trials, -rate * (1 - rate))), mixed)
    yield TaskList(
        "Most learnable",
        "Solved about half the time: the largest signal a rollout can give. Keep these.",
        chosen,
        [fractions[at] for at in chosen],
    )
    chosen = _first(np.lexsort((-tasks.trials, rate)), mixed)
    if set(chosen) != set(learnable):
        yield TaskList(
            "Hardest, yet solved",
            "Rarely solved. Look whether the rare success is earned or a lucky guess.",
            chosen,
            [fractions[at] for at in chosen],
        )
    tokens = np.zeros(len(tasks)) if tasks.tokens is None else np.nan_to_num(tasks.tokens)
    chosen = _first(np.lexsort((-tokens, -tasks.trials, tasks.mean)), rate == 0)
    yield TaskList(
        "Never solved",
        "No rollout succeeded, lowest reward and most tokens first. Too hard, or is the "
        "verifier wrong? The transcripts tell.",
        chosen,
        [fractions[at] for at in chosen],
    )


def _most_variable(tasks: TaskColumns, rollouts: Rollouts) -> TaskList | None:
    """Return the tasks with the most variable rewards. For 0/1 rewards this order equals
    learnability, so length is used instead.
    """
    if not is_binary(rollouts.reward):
        chosen = _first(np.argsort(-tasks.std, kind="stable"), tasks.std > 0)
        return TaskList(
            "Most variable",
            "Rewards of one task differ most (standard deviation).",
            chosen,
            [f"± {number(tasks.std[at])}" for at in chosen],
        )
    if tasks.tokens is None or tasks.tokens_std is None:
        return None
    relative = np.nan_to_num(tasks.tokens_std / np.maximum(tasks.tokens, 1))
    chosen = _first(np.argsort(-relative, kind="stable"), relative > 0)
    return TaskList(
        "Most variable in length",
        "Some rollouts are far longer than others of the same task (standard deviation over "
        "mean of output tokens). Look for loops.",
        chosen,
        [f"± {relative[at]:.0%}".replace("%", " %") for at in chosen],
    )


def _slowest(tasks: TaskColumns, rollouts: Rollouts) -> TaskList | None:
    if tasks.time is not None:
        field = time_field(rollouts)
        title, why, measure = "Slowest", f"Mean of {field} over the rollouts.", tasks.time
    elif tasks.tokens is not None and np.nanmin(tasks.tokens) < np.nanmax(tasks.tokens):
        title, measure = "Longest", tasks.tokens
        why = "Most output tokens per rollout."
    else:
        return None
    measured = np.nan_to_num(measure)
    chosen = _first(np.argsort(-measured, kind="stable"), measured > 0)
    return TaskList(title, why, chosen, [number(measure[at]) for at in chosen])


def _most_missing(tasks: TaskColumns) -> TaskList:
    missing = tasks.missing
    chosen = _first(np.argsort(-missing, kind="stable"), missing > 0)
    return TaskList(
        "Most rollouts without a score",
        "Failed or never run. Their pass rates rest on fewer rollouts than asked for.",
        chosen,
        [f"{missing[at]} of {tasks.requested[at]}" for at in chosen],
    )


def _first(order: IntArray, eligible: BoolArray) -> list[int]:
    """Return the first `LISTED` eligible positions of `order`."""
    positions: list[int] = order[eligible[order]][:LISTED].tolist()
    return positions


def _described(rollouts: Rollouts, field: str | None) -> tuple[FloatArray, FloatArray] | None:
    column = rollouts.columns.values.get(field) if field else None
    if column is None:
        return None
    described = describe(column, rollouts.starts)
    return described.mean, described.std


MOST_TASKS = 20_000
"""The largest number of table rows; a browser filters this many without a delay."""
STRIP_ROLLOUTS = 64
"""The largest number of rewards drawn for one task; the first ones are drawn."""
LABEL_CHARACTERS = 60


def shown_tasks(tasks: int, interest: Sequence[int]) -> list[int]:
    """Return the positions of the tasks in the table, in task order; the `MOST_TASKS` most
    interesting when there are more.
    """
    return list(range(tasks)) if tasks <= MOST_TASKS else sorted(interest[:MOST_TASKS])


def table_data(
    frame: RunFrame, tasks: TaskColumns, positions: Sequence[int], snippets: Sequence[str]
) -> JsonDict:
    """Return the table's columns for the tasks at `positions`; `snippets` are in the same order.

    The last positions may be of tasks without a scored rollout. Their numbers are None.
    """
    scored = [at for at in positions if at < len(tasks)]
    data = _scored_data(frame, tasks, scored)
    unscored = shown_order(frame)[[at for at in positions if at >= len(tasks)]]
    requested = np.diff(frame.requests.starts)[unscored].tolist()
    empty: dict[str, Any] = {
        "task": [task_label(frame.requests.tasks[at]) for at in unscored.tolist()],
        "rewards": [""] * len(unscored),
        "solved": [0] * len(unscored),
        "trials": [0] * len(unscored),
        "missing": requested,
        "mean": [None] * len(unscored),
        "std": [None] * len(unscored),
        "group": _group_codes(frame, unscored, data["groups"]),
    }
    for name in data.keys() - {"groups"}:
        if data[name] or name in empty:
            data[name] += empty.get(name, [None] * len(unscored))
    return {"position": positions, "prompt": list(snippets), **data}


def _scored_data(frame: RunFrame, tasks: TaskColumns, positions: Sequence[int]) -> JsonDict:
    rows = np.array(positions, dtype=np.int64)
    return {
        "task": [task_label(tasks.names[at]) for at in positions],
        "rewards": _strips(frame.rollouts, positions),
        "solved": tasks.solved[rows].tolist(),
        "trials": tasks.trials[rows].tolist(),
        "missing": tasks.missing[rows].tolist(),
        "mean": _numbers(tasks.mean, rows),
        "std": _numbers(tasks.std, rows),
        "tokens": _numbers(tasks.tokens, rows),
        "time": _numbers(tasks.time, rows),
        **_groups(frame, rows),
    }


def _groups(frame: RunFrame, rows: IntArray) -> JsonDict:
    """Return the groups to filter the table by: families if the run was grouped, else agents.

    `groups`: the sorted names. `group`: per task, the position of its group, -1 without one. Both
    are empty when there is only one group.
    """
    labels_of_groups, labels = _labels_of_groups(frame)
    codes = labels[frame.requests.starts[:-1]].tolist()
    groups = sorted({labels_of_groups[code] for code in codes if code >= 0})
    groups = groups if len(groups) > 1 else []
    return {"groups": groups, "group": _group_codes(frame, frame.profiled[rows], groups)}


def _labels_of_groups(frame: RunFrame) -> tuple[list[str], IntArray]:
    names, labels = [agent.name for agent in frame.agents.names], frame.agents.codes
    if frame.families is not None:
        names, labels = list(frame.families.names), frame.families.codes
    return [visible_line(name, LABEL_CHARACTERS) for name in names], labels


def _group_codes(frame: RunFrame, task_numbers: IntArray, groups: Sequence[str]) -> list[int]:
    if not groups:
        return []
    labels_of_groups, labels = _labels_of_groups(frame)
    index_of = {name: number for number, name in enumerate(groups)}
    codes = labels[frame.requests.starts[:-1]][task_numbers].tolist()
    return [index_of[labels_of_groups[code]] if code >= 0 else -1 for code in codes]


def _strips(rollouts: Rollouts, positions: Sequence[int]) -> list[str]:
    """Return one string per task with one digit (0 to 9) per rollout: its reward between the run's
    least and largest.
    """
    reward = rollouts.reward
    low, high = reward_range(reward)
    digits = np.rint(9 * (reward - low) / (high - low)).astype(np.uint8) + ord("0")
    text = digits.astype(np.uint8).tobytes().decode("ascii")
    starts = rollouts.starts.tolist()
    return [text[starts[at] : min(starts[at + 1], starts[at] + STRIP_ROLLOUTS)] for at in positions]


def _numbers(column: FloatArray | None, rows: IntArray) -> list[float | int | None]:
    """Return the values with six significant digits; None where a task lacks the field."""
    if column is None:
        return []
    return [None if np.isnan(value) else _short(value) for value in column[rows].tolist()]


def _short(value: float) -> float | int:
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def task_label(task: TaskIndex) -> str:
    """Return a task's name as shown. It is a string because JavaScript cannot represent very large
    integers.
    """
    return visible_line(str(task), LABEL_CHARACTERS)
