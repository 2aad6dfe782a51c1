"""Rows on disk: their keys, their reserved fields, and reading them with line numbers."""

import codecs
import errno
import json
import shlex
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from palestra.schema.json_types import JsonDict
from palestra.schema.packed import open_packed
from palestra.schema.repeated_keys import repeated_key

TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
ATTEMPT_INDEX = "_ng_attempt_index"
"""The number of attempts before this one; absent on the first."""
PREVIOUS_REWARD = "previous_reward"
"""The reward of a stored row before it was verified again."""
ROLLOUT_ID = "_ng_rollout_id"
"""An id that the row's author chose for the rollout, instead of `<task>-<rollout>`."""
MODEL_CALL_CAPTURE = "ng_model_call_capture"
AGENT_OBSERVATIONS = "ng_agent_observations"
TRAJECTORY = "ng_trajectory"
SKILLS_REF = "skills_ref"
AGENT_REF = "agent_ref"
FAILURE_CLASS = "_ng_failure_class"
FAILURE_LAYER = "_ng_failure_layer"
FAILURE_TERMINAL = "_ng_failure_terminal"
FAILURE_JUDGE_ERROR = "_ng_failure_judge_error"
JUDGE_QUESTION = "judge_question"
"""The field of a failures-file row with what the judge was asked; the end of a long question is left
out."""
EMPTY_ANSWER = "_ng_empty_answer"
"""The field of a scored row that marks an empty answer: the model returned neither text nor a tool
call."""
CONVERSATION_DIFFERS = "_ng_conversation_differs"
"""The field of a row that was verified again: the user or a tool of today's environment says
something else than the model saw, or the conversation ends earlier or later."""
NO_PERSIST = "_ng_no_persist"
CREATE_PARAMS = "responses_create_params"

MAX_ROW_BYTES = 128 * 1024 * 1024
"""The maximum length of a line that is read or written: 128 MiB. A decoded row needs several times
as much memory, and many rollouts share that memory."""

ONE_ARRAY = "the file is one JSON array"
"""The beginning of the problem of a file that has all rows in one array."""

_MOST_SPREAD_BYTES = 1024 * 1024
"""The maximum length of an object over several lines that is recognized as one."""

_NO_TEXT = {
    b"BZh": "compressed (bzip2)",
    b"\xfd7zXZ": "compressed (xz)",
    b"PK\x03\x04": "compressed (zip)",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""The first bytes of files that are not JSONL -> their format."""


class RolloutKey(NamedTuple):
    """The task index and rollout index of a rollout. Keys sort in task order."""

    task: int
    rollout: int

    def __str__(self) -> str:
        return f"{self.task}:{self.rollout}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a JSONL file: its number from 1, and the decoded row or an error."""

    number: int
    row: Any
    error: str = ""
    """The reason why the line is not a valid row, for example `not JSON (…)`; empty for a valid
    row."""
    torn: bool = False
    """Whether this is an incomplete last line without a line break, which a killed process leaves.
    """
    ended: bool = True
    """Whether the line ends with a line break. A journal's row without one was never acknowledged.
    """
    text: bytes = field(default=b"", repr=False, compare=False)
    """The bytes of the line as they are in the file."""


def read_jsonl(path: Path, *, most_bytes: int = MAX_ROW_BYTES) -> Iterator[Line]:
    """Yield every non-blank line of `path`, valid or not. The caller decides how to treat invalid
    lines.

    The file may be compressed with gzip or zstd, and may begin with a byte order mark. A line longer
    than `most_bytes` is invalid and is not held in memory completely. Raises OSError: the file
    cannot be read.
    """
    with open_packed(path) as file:
        yield from jsonl_lines(file, path=path, most_bytes=most_bytes)


def jsonl_lines(
    file: IO[bytes], *, path: Path | None = None, most_bytes: int = MAX_ROW_BYTES
) -> Iterator[Line]:
    """Yield the lines of an open file in the same form as `read_jsonl`. `path`: of the file, for the
    commands that messages name; None: unknown.
    """
    number = 0
    buffered: deque[bytes] = deque()
    while raw := buffered.popleft() if buffered else _next_line(file, most_bytes + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)  # as Windows' editors write it
        has_line_end = raw.endswith(b"\n")
        if len(raw) > most_bytes:
            yield _too_long(number, file, raw, most_bytes)
            continue
        if not raw.strip():
            continue
        try:
            row = orjson.loads(raw)
            if key := repeated_key(raw, row):
                yield Line(number, None, f"the key {key} is there twice", ended=has_line_end)
            elif number == 1 and _is_list_of_rows(row):
                yield Line(number, None, _is_array(path))
                return
            else:
                yield Line(number, row, ended=has_line_end, text=raw)
        except orjson.JSONDecodeError as error:
            if number == 1 and raw.rstrip() == b"{":
                buffered.extend(_lines_of_object(raw, file))
            if number == 1 and (problem := _problem_of_file(raw, buffered, path)):
                yield Line(number, None, problem)
                return
            problem = f"not JSON ({_reason(raw, path) or error})"
            yield Line(number, None, problem, torn=not has_line_end, ended=has_line_end)


def _problem_of_file(raw: bytes, following: Iterable[bytes], path: Path | None) -> str:
    """Return the problem of a file that is no JSONL, by its first line; empty when it may be JSONL."""
    if kind := other_than_text(raw):
        return f"the file is {kind}: JSONL is plain UTF-8 text"
    if b"\r" in raw.rstrip() and _is_json(raw.split(b"\r")[0]):
        return _has_old_line_ends(path)
    if raw.lstrip().startswith(b"["):
        return _is_array(path)
    return _is_spread(path) if _is_json(raw, *following) else ""


def _is_list_of_rows(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and isinstance(row[0], dict)


def _is_array(path: Path | None) -> str:
    """Return the message that a file is one JSON array, with the command that converts it."""
    lines = None if path is None else path.with_name(f"{path.stem}_lines.jsonl")
    return (
        f"{ONE_ARRAY}, not an object a line: "
        f"`jq -c '.[]' {_as_typed(path)} > {_as_typed(lines)}` converts it"
    )


def _lines_of_object(first: bytes, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the next lines, to the one that closes the object that the line `first` begins, or to
    the limit.
    """
    size = len(first)
    while size < _MOST_SPREAD_BYTES and (raw := _next_line(file, _MOST_SPREAD_BYTES - size)):
        yield raw
        size += len(raw)
        if raw.startswith(b"}"):
            return


def _is_json(*lines: bytes) -> bool:
    try:
        orjson.loads(b"".join(lines))
    except orjson.JSONDecodeError:
        return False
    return True


def _is_spread(path: Path | None) -> str:
    """Return the message that rows are spread over lines, with the command that converts the file."""
    lines = None if path is None else path.with_name(f"{path.stem}_lines.jsonl")
    return (
        "the file has objects over several lines, not an object a line: "
        f"`jq -c . {_as_typed(path)} > {_as_typed(lines)}` converts it"
    )


def _has_old_line_ends(path: Path | None) -> str:
    """Return the message that lines end with a carriage return, with the command that converts the
    file.
    """
    lines = None if path is None else path.with_name(f"{path.stem}_lines.jsonl")
    return (
        "the lines end with CR alone, not with LF: "
        f"`tr '\\r' '\\n' < {_as_typed(path)} > {_as_typed(lines)}` converts the file"
    )


def _as_typed(path: Path | None) -> str:
    return "FILE" if path is None else shlex.quote(str(path))


def _reason(raw: bytes, path: Path | None) -> str:
    """Return why a line is not JSON: it was cut off, is not UTF-8, or has a number that JSON lacks.
    Empty when something else is wrong with it.
    """
    constants: list[str] = []
    line = raw.rstrip(b"\r\n")
    text = line.decode("utf-8", "replace")
    try:
        json.loads(text, parse_constant=constants.append)
    except RecursionError:
        return ""
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            return f"the line ends inside the string that begins in column {error.pos + 1}"
        if error.pos >= len(text):
            return f"the line ends too early, after column {len(text)}"
        return ""
    if constants:
        return f"JSON has no {constants[0]}: write null, or leave the field out"
    where = byte_that_is_not_utf8(line)
    command = f"`iconv -f latin1 -t utf-8 {_as_typed(path)}` converts a file in Latin-1"
    return f"{where}; {command}" if where else ""


def byte_that_is_not_utf8(line: bytes) -> str:
    """Return which byte of a line is not UTF-8, and its column; empty when all are."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode()) + 1
        return f"byte {line[error.start]:#x} at column {column} is not UTF-8"
    return ""


def _next_line(file: IO[bytes], most_bytes: int) -> bytes:
    """Return the next line. Raises OSError: it cannot be read, or its compressed data is broken."""
    try:
        return file.readline(most_bytes)
    except (EOFError, zlib.error) as error:
        raise OSError(
            errno.EIO, f"the compressed data is incomplete or damaged ({error})"
        ) from error


def _too_long(number: int, file: IO[bytes], beginning: bytes, most_bytes: int) -> Line:
    """Skip the rest of a line that starts with `beginning`, and return it as an invalid line."""
    size, has_line_end = len(beginning), beginning.endswith(b"\n")
    while not has_line_end and (chunk := file.readline(1 << 20)):
        size += len(chunk)
        has_line_end = chunk.endswith(b"\n")
    problem = f"{size:,} bytes; the limit of a row is {most_bytes:,}"
    return Line(number, None, problem, torn=not has_line_end, ended=has_line_end)


def other_than_text(beginning: bytes) -> str:
    """Return the format of a file whose first bytes show that it is not text; empty otherwise."""
    kinds = [kind for magic, kind in _NO_TEXT.items() if beginning.startswith(magic)]
    return kinds[0] if kinds else ""


def key_of(row: JsonDict) -> RolloutKey:
    """Return the key of a materialized or result row. Raises KeyError: the row has no indices."""
    return RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
