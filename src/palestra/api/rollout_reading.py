"""Reads the rollouts of a run one after the other, in the order of its inputs."""

import contextlib
import json
import shutil
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from palestra.analysis import (
    HasTerm,
    Query,
    QueryError,
    WordTerm,
    absent_values,
    advice_about,
    matches_query,
    parse_query,
)
from palestra.causes import FailureMeanings
from palestra.datasets import open_rows
from palestra.metrics import TaskIndex
from palestra.records import RolloutRecord, record_of
from palestra.schema import (
    AGENT_REF,
    REWARD_COMPONENTS,
    JsonDict,
    RunPaths,
    is_compressed,
    with_compressed,
)

_Key = tuple[TaskIndex, int]
_Place = tuple[BinaryIO, int]


class _Indices(msgspec.Struct):
    task: int | str = msgspec.field(name="_ng_task_index")
    rollout: int = msgspec.field(name="_ng_rollout_index")


_decode: Final = msgspec.json.Decoder(_Indices).decode


def read_rollouts(outputs: Sequence[Path]) -> Iterator[RolloutRecord]:
    """Yield the rollouts of a run. One at a time is in memory; of the others, only where their rows
    are. `outputs`: the run's output, or those of its shards.
    """
    paths, meanings = [RunPaths(output) for output in outputs], FailureMeanings()
    advice = advice_about(outputs)
    with contextlib.ExitStack() as files:

        def index(paths_of_kind: Sequence[Path]) -> dict[_Key, list[_Place]]:
            row_places: dict[_Key, list[_Place]] = defaultdict(list)
            for path in paths_of_kind:
                if (existing := with_compressed(path)) is not None:
                    file = files.enter_context(_seekable(existing))
                    for key, offset in _keys(file):
                        row_places[key].append((file, offset))
            return row_places

        inputs = index([path.materialized_inputs for path in paths])
        results = index([path.output for path in paths])
        failures = index([path.failures for path in paths])
        for key, (input_place, *_) in inputs.items():
            result = _row(results[key][0]) if key in results else None
            failed = [_row(failed_place) for failed_place in failures.get(key, ())]
            yield record_of(_row(input_place), result, failed, meanings, advice)


@contextlib.contextmanager
def _seekable(path: Path) -> Iterator[BinaryIO]:
    """Open a file of rows. A compressed one is unpacked into a temporary file."""
    if not is_compressed(path):
        with path.open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as unpacked:
        with open_rows(path) as packed:
            shutil.copyfileobj(packed, unpacked)
        unpacked.seek(0)
        yield unpacked


def _keys(file: BinaryIO) -> Iterator[tuple[_Key, int]]:
    """Yield the key of each row and its offset. A line that is cut off is left out."""
    offset = 0
    for line in file:
        indices: _Indices | None
        try:
            indices = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            indices = _leniently(line)
        if indices is not None:
            yield (indices.task, indices.rollout), offset
        offset += len(line)


def _leniently(line: bytes) -> _Indices | None:
    """Return the indices of a row that only Python's own JSON reads, such as one with NaN."""
    try:
        return msgspec.convert(json.loads(line), _Indices)
    except (ValueError, RecursionError):
        return None


def _row(row_place: _Place) -> JsonDict:
    file, offset = row_place
    file.seek(offset)
    row: JsonDict = json.loads(file.readline())
    return row


def unsorted_query(text: str) -> Query:
    """Return the query of a text. Raises QueryError: it cannot be read, or has `sort:`."""
    query = parse_query(text)
    if query.sort:
        reason = "rollouts are read in the order of the tasks, and `sort:` has no effect"
        raise QueryError(text, query.sort_position, reason, hint="leave it out, and use sorted()")
    return query


def matching(records: Iterator[RolloutRecord], query: Query) -> Iterator[RolloutRecord]:
    """Yield the rollouts that match. When none does, warn of the values that the query asks for and
    no rollout has.

    Raises QueryError, after the last rollout: no rollout has a field of the query, or a field
    of numbers is compared with a text. When some matched, a field that resembles no other is no error.
    """
    contents = _Contents(query)
    has_records = has_matched = False
    for record in records:
        has_records = True
        contents.add(record, with_texts=not has_matched)
        if matches_query(query, partial(values_of, record)):
            has_matched = True
            yield record
    if not has_records:
        return
    if has_matched:  # `-has:note` is how rows without the field are found
        contents.fields |= {leaf.field for leaf in query.leaves() if isinstance(leaf, HasTerm)}
    try:
        query.check_fields(sorted(contents.fields))
    except QueryError as error:
        if error.nearest or not has_matched:
            raise
    query.check_numbers(contents.numbers)
    if not has_matched:
        for text in absent_values(query, contents.counts):
            warnings.warn(text, stacklevel=2)


class _Contents:
    """The fields that rollouts have, and the texts in those that a query names."""

    def __init__(self, query: Query) -> None:
        leaves = (leaf for leaf in query.leaves() if not isinstance(leaf, WordTerm))
        self._texts: dict[str, Counter[str]] = {leaf.field: Counter() for leaf in leaves}
        self._unseen = self._texts.keys() - _SPECIAL
        self.fields = set(_SPECIAL)
        self._compared_with_texts = {term.field for term in query.text_terms()}
        self._numeric: set[str] = set()
        self._textual: set[str] = set()

    def add(self, record: RolloutRecord, *, with_texts: bool) -> None:
        if self._unseen:
            self.fields |= _own_fields(record)
            self._unseen -= self.fields
        if with_texts:
            for name, texts in self._texts.items():
                texts.update(value for value in values_of(record, name) if isinstance(value, str))

        for name in self._compared_with_texts:
            for value in values_of(record, name):
                (self._textual if isinstance(value, str) else self._numeric).add(name)

    @property
    def numbers(self) -> Collection[str]:
        """The fields with a term such as `task:abc` in which every value is a number."""
        return self._numeric - self._textual

    def counts(self, name: str) -> Mapping[str, int]:
        return dict(self._texts[name].most_common())


def _own_fields(record: RolloutRecord) -> set[str]:
    """Return the fields of one rollout that a query can name, besides those of every rollout."""
    names = [
        *record.row,
        *(record.result or {}),
        *(f"{REWARD_COMPONENTS}.{c}" for c in record.components),
    ]
    return {name for name in names if values_of(record, name)}


def values_of(record: RolloutRecord, name: str) -> Sequence[Any]:
    """Return the values of a query's field; none when the rollout lacks it."""
    if name in _SPECIAL:
        return [value for value in _SPECIAL[name](record) if value is not None]
    source: Any = {**record.row, **(record.result or {})}
    component = name.removeprefix(f"{REWARD_COMPONENTS}.")
    if component != name:
        source, name = record.components, component
    value = source.get(name)
    return [value] if isinstance(value, bool | int | float | str) else []


def _usage(record: RolloutRecord, name: str) -> Any:
    response = (record.result or {}).get("response")
    usage = response.get("usage") if isinstance(response, Mapping) else None
    return usage.get(name) if isinstance(usage, Mapping) else None


def _calls(record: RolloutRecord) -> list[str]:
    return [entry.name for entry in record.transcript if entry.kind == "call"]


def _texts(record: RolloutRecord) -> list[str]:
    entries = (*record.prompt, *record.transcript)
    return [entry.text for entry in entries] + [attempt.message for attempt in record.attempts]


def _last(record: RolloutRecord, name: str) -> Any:
    failed = record.result is None and record.attempts
    return getattr(record.attempts[-1], name) if failed else None


_SPECIAL: Final[Mapping[str, Any]] = {
    "task": lambda record: [record.task],
    "rollout": lambda record: [record.rollout],
    "outcome": lambda record: [record.outcome],
    "reward": lambda record: [record.reward],
    "agent": lambda record: [(record.row.get(AGENT_REF) or {}).get("name")],
    "class": lambda record: [_last(record, "failure_class")],
    "layer": lambda record: [_last(record, "layer")],
    "attempts": lambda record: [len(record.attempts) + (record.result is not None)],
    "turns": lambda record: [sum(entry.kind == "assistant" for entry in record.transcript)],
    "tools": _calls,
    "tools.count": lambda record: [len(_calls(record))],
    "tokens.in": lambda record: [_usage(record, "input_tokens")],
    "tokens.out": lambda record: [_usage(record, "output_tokens")],
    "text": _texts,
}
