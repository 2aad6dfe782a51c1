"""Recorded rollouts and their model turns.

A rollouts file may be larger than memory. So only the position of each row is kept, and a row is
read when it is needed.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import orjson
from pydantic import ValidationError

from palestra.errors import InputDataError
from palestra.schema import (
    ROLLOUT_INDEX,
    TASK_INDEX,
    FunctionCall,
    InputItem,
    Message,
    Reasoning,
    Response,
    ResponseCreateParams,
    RunRequest,
    to_plain,
)

KEPT_ROWS = 256
"""The number of decoded rollouts kept in memory: the most recently used ones."""

Key = tuple[int | str, int]
"""A rollout's key: task index and rollout index."""


class _Row(RunRequest):
    """The parts of a recorded row that a replay needs."""

    response: Response


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One model turn: `said` are the model's items, `heard` the items that it read since its last
    turn.
    """

    heard: tuple[Any, ...]
    said: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One recorded rollout, split into model turns."""

    params: ResponseCreateParams
    response: Response
    turns: tuple[RecordedTurn, ...]

    @property
    def turns_before(self) -> int:
        """The number of model turns in the task's own input."""
        return len(turns_of(items_of(self.params)))


@final
class Recording:
    """The rollouts of some files, by task index and rollout index."""

    def __init__(self, place_of_key: dict[Key, tuple[Path, int, int]]) -> None:
        self._places = place_of_key
        self._kept: OrderedDict[Key, Rollout] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Self:
        """Scan the files. Raises InputDataError: a file is missing, or there are no rollouts."""
        place_of_key: dict[Key, tuple[Path, int, int]] = {}
        for path in paths:
            try:
                _scan(path, place_of_key)
            except OSError as error:
                raise InputDataError(
                    f"{path} cannot be read: {error.strerror}",
                    hint="replay_model answers from the output of an earlier `palestra collect`",
                ) from error
        if not place_of_key:
            raise InputDataError(
                "replay_model has no recorded rollouts",
                hint="list rollouts files in the setting `rollouts`",
            )
        return cls(place_of_key)

    async def rollout(self, key: Key) -> Rollout | None:
        """Return the recorded rollout, or None. It is read in a thread, because a disk may be slow.

        Raises InputDataError: the row cannot be read.
        """
        if (cached := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return cached
        if (row_place := self._places.get(key)) is None:
            return None
        turns = self._kept[key] = await asyncio.to_thread(_read_rollout, *row_place)
        if len(self._kept) > KEPT_ROWS:
            self._kept.popitem(last=False)
        return turns


def items_of(params: ResponseCreateParams) -> Sequence[InputItem]:
    """Return the conversation of a request as a list of items."""
    if isinstance(params.input, str):
        return [Message(role="user", content=params.input)]
    return params.input


def turns_of(items: Iterable[Any]) -> list[RecordedTurn]:
    """Split items into model turns. A turn is a series of model items; it also ends at an item with
    token ids.
    """
    turns: list[RecordedTurn] = []
    heard: list[Any] = []
    turn: list[Any] = []
    for item in items:
        if not _is_models(item):
            if turn:
                turns.append(RecordedTurn(tuple(heard), tuple(turn)))
                heard, turn = [], []
            heard.append(item)
            continue
        turn.append(item)
        if item.generation_token_ids is not None:
            turns.append(RecordedTurn(tuple(heard), tuple(turn)))
            heard, turn = [], []
    if turn:
        turns.append(RecordedTurn(tuple(heard), tuple(turn)))
    return turns


def same(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Whether two lists of items have the same content, ignoring ids and statuses."""
    return [_meaning(item) for item in first] == [_meaning(item) for item in second]


def _meaning(item: Any) -> Any:
    plain = to_plain(item)
    fields = {key: value for key, value in plain.items() if key not in {"id", "status"}}
    content = fields.get("content")
    if isinstance(content, list) and all(part.keys() == {"type", "text"} for part in content):
        fields["content"] = "".join(part["text"] for part in content)
    return fields


def _is_models(item: Any) -> bool:
    if isinstance(item, Message):
        return item.role == "assistant"
    return isinstance(item, FunctionCall | Reasoning)


def _scan(path: Path, place_of_key: dict[Key, tuple[Path, int, int]]) -> None:
    with path.open("rb") as file:
        at = 0
        for number, line in enumerate(file, 1):
            if line.strip():
                key = _key(path, number, line)
                if key in place_of_key:
                    raise InputDataError(
                        f"{path} line {number}: task {key[0]}, rollout {key[1]} is recorded twice"
                    )
                place_of_key[key] = (path, at, len(line))
            at += len(line)


def _key(path: Path, number: int, line: bytes) -> Key:
    try:
        row = orjson.loads(line)
        return row[TASK_INDEX], row[ROLLOUT_INDEX]
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise InputDataError(
            f"{path}:{number} is not a recorded rollout: it needs {TASK_INDEX} and {ROLLOUT_INDEX}",
            hint="replay_model answers from the output of an earlier `palestra collect`",
        ) from error


def _read_rollout(path: Path, at: int, length: int) -> Rollout:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            raw = os.pread(descriptor, length, at)
        finally:
            os.close(descriptor)
        row = _Row.model_validate(orjson.loads(raw))
    except (OSError, orjson.JSONDecodeError, ValidationError) as error:
        raise InputDataError(
            f"{path} has changed since it was scanned: its row at byte {at} cannot be read ({error})"
        ) from error
    return Rollout(row.responses_create_params, row.response, tuple(turns_of(row.response.output)))
