"""Says what a file of rows is, by its first row."""

import json
from pathlib import Path
from typing import Final

from palestra.schema import AGENT_REF, CREATE_PARAMS, FAILURE_CLASS, TASK_INDEX, open_packed

_FIRST_LINE_BYTES: Final = 1 << 20
_NO_ROLLOUTS: Final = {
    "outcomes": "has outcomes of training, which `palestra view` shows, and is no run",
    "failures": "has the failures of a run, and no rollouts",
    "inputs": "has the inputs of a run, and no rollouts",
    "dataset": "has tasks, and no rollouts",
    "other": "is no file of rollouts",
}


def kind_of(path: Path) -> str:
    """Return what the first line of a file is: `rollouts`, `outcomes`, `failures`, `inputs`,
    `dataset`, `empty`, or `other` for no JSON object.
    """
    try:
        with open_packed(path) as file:
            line = file.readline(_FIRST_LINE_BYTES)
            while line and not line.strip():
                line = file.readline(_FIRST_LINE_BYTES)
    except (OSError, EOFError, ValueError):
        return "other"
    if not line:
        return "empty"
    if len(line) == _FIRST_LINE_BYTES:
        return "rollouts" if b'"response"' in line else "other"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "other"
    return _kind_of_row(row) if isinstance(row, dict) else "other"


def why_no_rollouts(path: Path) -> str:
    """Return what a file has instead of rollouts, as the end of a sentence; empty when it may have
    some.
    """
    return _NO_ROLLOUTS.get(kind_of(path), "")


def _kind_of_row(row: dict[str, object]) -> str:
    if row.get(FAILURE_CLASS):
        return "failures"
    if "response" in row:
        return "rollouts"
    if "outcome" in row and not row.keys().isdisjoint(("reward", "failure")):
        return "outcomes"
    if TASK_INDEX in row and CREATE_PARAMS in row:
        return "inputs"
    if CREATE_PARAMS in row or AGENT_REF in row:
        return "dataset"
    return "rollouts" if "reward" in row else "other"
