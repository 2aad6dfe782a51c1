"""Rows on disk: their identity, their reserved keys, and reading them with line numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
AGENT_REF = "agent_ref"
FAILURE_CLASS = "_ng_failure_class"
FAILURE_LAYER = "_ng_failure_layer"
FAILURE_TERMINAL = "_ng_failure_terminal"
CREATE_PARAMS = "responses_create_params"


class RolloutKey(NamedTuple):
    """Which rollout of which task; sorts in task order."""

    task: int
    rollout: int

    def __str__(self) -> str:
        return f"{self.task}:{self.rollout}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a JSONL file: its number from 1, and the decoded row or why it is not one."""

    number: int
    row: Any
    error: str = ""
    torn: bool = False
    """The last line, cut off before its line break: what a kill leaves behind."""
    ended: bool = True
    """Whether it has its line break; a journal's row without one was never acknowledged."""


def read_jsonl(path: Path) -> Iterator[Line]:
    """Every non-blank line of `path`, good or bad; the caller decides what a bad one means.

    Raises OSError when the file cannot be read.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            ended = raw.endswith(b"\n")
            try:
                yield Line(number, orjson.loads(raw), ended=ended)
            except orjson.JSONDecodeError as error:
                yield Line(number, None, str(error), torn=not ended, ended=ended)


def key_of(row: dict[str, Any]) -> RolloutKey:
    """The identity of a materialized or result row. Raises KeyError when it has none."""
    return RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
