"""Computes a digest of each task's content: equal rows in two runs have equal digests.

A digest covers the prompt (`input`, `instructions`, `tools`, `text` of `responses_create_params`)
and every other field of the row that the verifier may read. It leaves out what differs between runs
of one task: the indices, `agent_ref`, and sampling settings (model, temperature, token limits,
seeds). The order of keys and whitespace between values do not change it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import orjson

from palestra.analysis.scan import decode_value, split_row
from palestra.datasets import open_rows
from palestra.errors import InputDataError
from palestra.metrics import TaskIndex
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
)

OF_THE_RUN: Final = "_ng_"
"""Fields with this prefix belong to the run, not to the task."""
PROMPT: Final = ("input", "instructions", "tools", "text")
SHOWN = 10
_INDEX_AT_END = f',"{ROLLOUT_INDEX}":'.encode()
"""The rollout index as collections write it, at the end of a row. Quotes inside a text are escaped,
so no text contains these bytes."""
_END = re.compile(rb"\d+}\s*")

RawRow = Mapping[str, msgspec.Raw]
Fingerprints = Mapping[TaskIndex, bytes]


def fingerprints(inputs: Iterable[Path]) -> Fingerprints:
    """Return the digest of every task in a run's materialized inputs, in order of appearance.

    Raises InputDataError: rows of one task have different content, so two runs or two datasets were
    mixed. The message names the first ten such tasks.
    """
    prints_of_task: dict[TaskIndex, tuple[bytes, bytes]] = {}
    """Per task, the digest of its first row's bytes, and of what they mean."""
    mixed: dict[TaskIndex, str] = {}
    for row_place, row in _rows(inputs):
        task = decode_value(row[TASK_INDEX])
        written = _digest(_as_written(row))
        first = prints_of_task.get(task)
        if first is None:
            prints_of_task[task] = written, fingerprint(row)
        elif first[0] != written and first[1] != fingerprint(row):
            mixed.setdefault(task, row_place)
    if mixed:
        raise _mixed(mixed)
    return {task: meaning for task, (_, meaning) in prints_of_task.items()}


def fingerprint(row: RawRow) -> bytes:
    """Return the digest of the task of one materialized row."""
    return _digest(_canonical(row))


def task_fields(row: JsonObject) -> JsonDict:
    """Return the fields that a digest covers, with flat names: `responses_create_params.input`,
    `expected_answer`, …
    """
    params = row.get(CREATE_PARAMS)
    prompt = {} if not isinstance(params, Mapping) else params
    fields = {f"{CREATE_PARAMS}.{name}": prompt[name] for name in PROMPT if name in prompt}
    return fields | {name: row[name] for name in row if _of_task(name)}


def sampling(row: JsonObject) -> JsonDict:
    """Return the fields of `responses_create_params` that a digest leaves out, except the seeds of
    single rollouts.
    """
    params = row.get(CREATE_PARAMS)
    if not isinstance(params, Mapping):
        return {}
    settings = {name: params[name] for name in params if name not in {*PROMPT, "metadata"}}
    metadata = params.get("metadata")
    raw = metadata.get("extra_body") if isinstance(metadata, Mapping) else None
    try:
        extra = orjson.loads(raw) if isinstance(raw, str) else raw
    except orjson.JSONDecodeError:
        extra = None
    if isinstance(extra, Mapping):
        settings |= {name: extra[name] for name in extra if name != "seed"}
    return settings


def _rows(inputs: Iterable[Path]) -> Iterator[tuple[str, RawRow]]:
    """Yield every row with its place (file and line). Of successive rows that differ only in the
    rollout index, yield only the first.

    Lines that are not rows are skipped: `load_run` has already reported or skipped them.
    """
    for path in inputs:
        last = b""
        with open_rows(path) as file:
            for number, text in enumerate(file, start=1):
                before, _, after = text.rpartition(_INDEX_AT_END)
                if before and before == last and _END.fullmatch(after):
                    continue
                last = before
                row = None if text.isspace() else split_row(text)
                if row is not None and TASK_INDEX in row:
                    yield f"{path} line {number}", row


def _of_task(name: str) -> bool:
    return name not in {CREATE_PARAMS, AGENT_REF} and not name.startswith(OF_THE_RUN)


def _as_written(row: RawRow) -> Iterator[bytes | memoryview]:
    """Yield the bytes of every covered field, without decoding them."""
    for name, raw in row.items():
        if _of_task(name):
            yield from (name.encode("utf-8", "surrogatepass"), b"=", memoryview(raw), b";")
    for name, raw in _params(row).items():
        if name in PROMPT:
            yield from (name.encode(), b"=", memoryview(raw), b";")


def _canonical(row: RawRow) -> Iterator[bytes]:
    """Yield the covered fields as canonical JSON, with sorted keys."""
    fields = {name: decode_value(raw) for name, raw in row.items() if _of_task(name)}
    prompt = {name: decode_value(raw) for name, raw in _params(row).items() if name in PROMPT}
    try:
        yield orjson.dumps([prompt, fields], option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # integers beyond 64 bits and lone surrogates
        yield json.dumps([prompt, fields], sort_keys=True).encode()


def _params(row: RawRow) -> RawRow:
    if CREATE_PARAMS not in row:
        return {}
    return split_row(bytes(row[CREATE_PARAMS])) or {}


def _digest(parts: Iterable[bytes | memoryview]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _mixed(mixed: Mapping[TaskIndex, str]) -> InputDataError:
    first = [f"{task} ({row_place})" for task, row_place in list(mixed.items())[:SHOWN]]
    ellipsis = ", …" if len(mixed) > SHOWN else ""
    return InputDataError(
        f"{len(mixed)} task indices each have rollouts of different rows: "
        f"{', '.join(first)}{ellipsis}",
        hint="each task index stands for one prompt; do not concatenate the files of several "
        "runs, as their task indices collide",
    )
