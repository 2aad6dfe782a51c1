"""Rows on disk: their identity, their reserved keys, and reading them with line numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from palestra.schema.json_types import JsonDict

TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
AGENT_REF = "agent_ref"
FAILURE_CLASS = "_ng_failure_class"
FAILURE_LAYER = "_ng_failure_layer"
FAILURE_TERMINAL = "_ng_failure_terminal"
EMPTY_ANSWER = "_ng_empty_answer"
"""Field of a scored row: that the model said nothing at all, neither text nor a call of a tool."""
NO_PERSIST = "_ng_no_persist"
CREATE_PARAMS = "responses_create_params"

MAX_ROW_BYTES = 128 * 1024 * 1024
"""The longest line that is read, and the longest row that is written: 128 MiB. Decoded, a row takes
several times as much memory, and thousands of rollouts share it."""

_NO_TEXT = {
    b"\x1f\x8b": "compressed (gzip)",
    b"\x28\xb5\x2f\xfd": "compressed (zstd)",
    b"BZh": "compressed (bzip2)",
    b"\xfd7zXZ": "compressed (xz)",
    b"PK\x03\x04": "compressed (zip)",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""How files begin that somebody takes for JSONL."""


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
    """`not JSON (…)`, or what else keeps it from being a row."""
    torn: bool = False
    """The last line, cut off before its line break: what a kill leaves behind."""
    ended: bool = True
    """Whether it has its line break; a journal's row without one was never acknowledged."""
    text: bytes = field(default=b"", repr=False, compare=False)
    """The bytes of a row, as they stand in the file."""


def read_jsonl(path: Path, *, most_bytes: int = MAX_ROW_BYTES) -> Iterator[Line]:
    """Every non-blank line of `path`, good or bad; the caller decides what a bad one means.

    A line of more than `most_bytes` is bad, and is never held in memory. Raises OSError when the file
    cannot be read.
    """
    with path.open("rb") as file:
        yield from jsonl_lines(file, most_bytes=most_bytes)


def jsonl_lines(file: IO[bytes], *, most_bytes: int = MAX_ROW_BYTES) -> Iterator[Line]:
    """The lines of an open file, as `read_jsonl` gives them."""
    number = 0
    while raw := file.readline(most_bytes + 1):
        number += 1
        has_line_end = raw.endswith(b"\n")
        if len(raw) > most_bytes:
            yield _too_long(number, file, raw, most_bytes)
            continue
        if not raw.strip():
            continue
        try:
            yield Line(number, orjson.loads(raw), ended=has_line_end, text=raw)
        except orjson.JSONDecodeError as error:
            if number == 1 and (kind := other_than_text(raw)):
                yield Line(number, None, f"the file is {kind}: JSONL is plain UTF-8 text")
                return
            yield Line(
                number, None, f"not JSON ({error})", torn=not has_line_end, ended=has_line_end
            )


def _too_long(number: int, file: IO[bytes], beginning: bytes, most_bytes: int) -> Line:
    """The line of which `beginning` was read; the rest is skipped."""
    size, has_line_end = len(beginning), beginning.endswith(b"\n")
    while not has_line_end and (chunk := file.readline(1 << 20)):
        size += len(chunk)
        has_line_end = chunk.endswith(b"\n")
    problem = f"{size:,} bytes, and a row may have {most_bytes:,}"
    return Line(number, None, problem, torn=not has_line_end, ended=has_line_end)


def other_than_text(beginning: bytes) -> str:
    """What a file that begins so is, when that is no text; empty otherwise."""
    kinds = [kind for magic, kind in _NO_TEXT.items() if beginning.startswith(magic)]
    return kinds[0] if kinds else ""


def key_of(row: JsonDict) -> RolloutKey:
    """The identity of a materialized or result row. Raises KeyError when it has none."""
    return RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
