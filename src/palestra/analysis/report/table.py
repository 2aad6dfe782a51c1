"""The data behind the table of tasks, as columns that the page's script sorts and filters. Pure."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.tasks import TaskColumns
from palestra.analysis.report.visible import visible_line
from palestra.metrics import FloatArray, IntArray, Rollouts, TaskIndex

MOST_TASKS = 20_000
"""Rows of the table: what a browser filters at once without a pause."""
STRIP_ROLLOUTS = 64
"""Of a task with more, the first so many rewards are drawn."""
LABEL_CHARACTERS = 60


def shown_tasks(tasks: int, interest: Sequence[int]) -> list[int]:
    """The positions in the table, in task order; the most interesting when there are too many."""
    return list(range(tasks)) if tasks <= MOST_TASKS else sorted(interest[:MOST_TASKS])


def table_data(
    frame: RunFrame, tasks: TaskColumns, shown: Sequence[int], snippets: Sequence[str]
) -> dict[str, Any]:
    """Columns of the shown tasks; `snippets` are theirs, in the same order."""
    rows = np.array(shown, dtype=np.int64)
    return {
        "position": shown,
        "task": [task_label(tasks.names[at]) for at in shown],
        "prompt": list(snippets),
        "rewards": _strips(frame.rollouts, shown),
        "solved": tasks.solved[rows].tolist(),
        "trials": tasks.trials[rows].tolist(),
        "missing": tasks.missing[rows].tolist(),
        "mean": _numbers(tasks.mean, rows),
        "std": _numbers(tasks.std, rows),
        "tokens": _numbers(tasks.tokens, rows),
        "time": _numbers(tasks.time, rows),
        **_groups(frame, rows),
    }


def _groups(frame: RunFrame, rows: IntArray) -> dict[str, Any]:
    """What the table can be filtered by, families if the run was grouped, else agents.

    Names, sorted as codes follow the files, and per task the number of its own; none when all
    tasks are of one.
    """
    agents = [agent.name for agent in frame.agents.names]
    names, labels = (agents, frame.agents.codes)
    if frame.families is not None:
        names, labels = list(frame.families.names), frame.families.codes
    shown = [visible_line(name, LABEL_CHARACTERS) for name in names]
    codes = labels[frame.requests.starts[:-1]][frame.profiled][rows].tolist()
    ordered = sorted({shown[code] for code in codes if code >= 0})
    if len(ordered) < 2:
        return {"groups": [], "group": []}
    place = {name: number for number, name in enumerate(ordered)}
    return {"groups": ordered, "group": [place[shown[code]] if code >= 0 else -1 for code in codes]}


def _strips(rollouts: Rollouts, shown: Sequence[int]) -> list[str]:
    """Per task, a digit for each rollout: where its reward is between the run's extremes."""
    reward = rollouts.reward
    low, high = min(float(reward.min()), 0.0), max(float(reward.max()), 1.0)
    digits = np.rint(9 * (reward - low) / (high - low)).astype(np.uint8) + ord("0")
    text = digits.astype(np.uint8).tobytes().decode("ascii")
    starts = rollouts.starts.tolist()
    return [text[starts[at] : min(starts[at + 1], starts[at] + STRIP_ROLLOUTS)] for at in shown]


def _numbers(column: FloatArray | None, rows: IntArray) -> list[float | int | None]:
    """To six digits, enough to sort and to read; None where a task lacks the field."""
    if column is None:
        return []
    return [None if np.isnan(value) else _short(value) for value in column[rows].tolist()]


def _short(value: float) -> float | int:
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def task_label(task: TaskIndex) -> str:
    """A task's name as shown; a string, since numbers may be longer than a script's."""
    return visible_line(str(task), LABEL_CHARACTERS)
