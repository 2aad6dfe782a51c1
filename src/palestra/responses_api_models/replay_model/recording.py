"""Recorded rollouts, and the turns of the model in them.

A rollouts file may be larger than memory: only where each row stands is kept, and rows are read
when they are asked for.
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
"""Rollouts whose rows stay decoded, the last ones asked for."""

Key = tuple[int | str, int]
"""Task index and rollout index."""


class _Row(RunRequest):
    """Of a recorded row, what a replay needs."""

    response: Response


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One answer of the model: its items, and what it had read since its last one."""

    heard: tuple[Any, ...]
    said: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One recorded rollout."""

    params: ResponseCreateParams
    response: Response
    turns: tuple[RecordedTurn, ...]

    @property
    def turns_before(self) -> int:
        """Turns of the model that the task itself begins with."""
        return len(turns_of(items_of(self.params)))


@final
class Recording:
    """Rollouts of some files, by task and rollout index."""

    def __init__(self, place_of_key: dict[Key, tuple[Path, int, int]]) -> None:
        self._places = place_of_key
        self._kept: OrderedDict[Key, Rollout] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Self:
        """Scan the files. Raises InputDataError for one that is missing or holds no rollouts."""
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
                "replay_model has no recorded rollouts", hint="name files in `rollouts`"
            )
        return cls(place_of_key)

    async def rollout(self, key: Key) -> Rollout | None:
        """The recorded one, or None; it is read aside, as a disk may be slow.

        Raises InputDataError when its row cannot be read.
        """
        if (cached := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return cached
        if (row_place := self._places.get(key)) is None:
            return None
        turns = self._kept[key] = await asyncio.to_thread(_read, *row_place)
        if len(self._kept) > KEPT_ROWS:
            self._kept.popitem(last=False)
        return turns


def items_of(params: ResponseCreateParams) -> Sequence[InputItem]:
    """The conversation as items."""
    if isinstance(params.input, str):
        return [Message(role="user", content=params.input)]
    return params.input


def turns_of(items: Iterable[Any]) -> list[RecordedTurn]:
    """The model's turns: what it said in a row, up to the item that ends with token ids if any."""
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
    """Whether items say the same; ids and statuses aside."""
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
                    raise InputDataError(f"{path}:{number}: task {key[0]}, rollout {key[1]} again")
                place_of_key[key] = (path, at, len(line))
            at += len(line)


def _key(path: Path, number: int, line: bytes) -> Key:
    try:
        row = orjson.loads(line)
        return row[TASK_INDEX], row[ROLLOUT_INDEX]
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise InputDataError(
            f"{path}:{number} is no recorded rollout: it needs {TASK_INDEX} and {ROLLOUT_INDEX}",
            hint="replay_model answers from the output of an earlier `palestra collect`",
        ) from error


def _read(path: Path, at: int, length: int) -> Rollout:
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
