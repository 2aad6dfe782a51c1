"""Takes the indexed values out of blocks of rows and appends them to columns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from palestra.analysis import (
    RowBlock,
    decode_value,
    family_of,
    fingerprint,
    question,
    recorded_commands,
    split_row,
)
from palestra.causes import FailureMeanings
from palestra.metrics import RESPONSE, REWARD, IntArray, finite, is_finite_number
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    EMPTY_ANSWER,
    FAILURE_CLASS,
    FAILURE_LAYER,
    FAILURE_TERMINAL,
    OUTSIDE_REWARD_RULES,
    RETRIABLE,
    ROLLOUT_INDEX,
    TASK_INDEX,
    TOOL_FAILURES,
    JsonDict,
    ReverifyCommand,
    field_of,
    is_retriable,
)
from palestra.viewer.index.heaps import HeapWriter, TextCodes
from palestra.viewer.index.layout import NO_TASK, NO_TEXT, TableWriter
from palestra.viewer.index.responses import are_truncated, digest_of
from palestra.viewer.index.row_fields import FieldStates, FieldWriter
from palestra.viewer.index.storage import StoredColumns

PROMPT_CHARACTERS: Final = 200
_MESSAGE_CHARACTERS: Final = 200
_KNOWN_TASKS: Final = 65_536
_LONGEST_NAME: Final = 10_000
_LARGEST_PLAIN: Final = 2**62
_NO_COMMAND: Final = ReverifyCommand("")


class Extraction:
    """Takes values out of the rows of one run. `family`: the path of the `group_by` field. `rows`:
    how many result rows are in the columns already.
    """

    def __init__(
        self, columns: StoredColumns, fields: FieldStates, *, family: Sequence[str], rows: int
    ) -> None:
        self._texts = HeapWriter(columns, "texts")
        self._fields = FieldWriter(columns, fields, self._texts, rows=rows)
        self._heaps = {name: HeapWriter(columns, name) for name in ("answers", "asked", "messages")}
        self._tables = {
            name: TableWriter(columns, name)
            for name in ("inputs", "results", "failures", "prompts")
        }
        self._codes: dict[str, TextCodes] = {}
        self._family = family
        self._known_tasks: dict[int, None] = {}
        self._meanings = FailureMeanings()

    # Tables

    def inputs(self, block: RowBlock, file: int) -> None:
        """Add materialized rows."""
        keys = self._keys(block, file)
        self._tables["inputs"].add(len(block), keys)
        self._prompts(block, keys["task"])

    def results(
        self,
        block: RowBlock,
        file: int,
        *,
        with_prompts: bool,
        lengths: Sequence[int] | None = None,
    ) -> None:
        """Add scored rows. `with_prompts`: the run has no materialized inputs. `lengths`: of their
        lines, where these are not the rows.
        """
        rows = len(block)
        keys = self._keys(block, file, lengths)
        responses = block.field(RESPONSE)
        turns, calls, tools, answers = zip(*map(digest_of, responses), strict=True)
        is_scored = finite(block.field(REWARD)) is not None
        self._tables["results"].add(
            rows,
            keys
            | {
                "truncated": np.array(are_truncated(responses), np.bool_),
                "empty": _true(block.field(EMPTY_ANSWER)),
                "broken_tools": _has_items(block.field(TOOL_FAILURES)),
                "outside_rules": _has_items(block.field(OUTSIDE_REWARD_RULES)),
                "turns": np.array(turns, np.int32),
                "calls": np.array(calls, np.int32),
                "tools": self._coded("tools").codes(tools),
                "scored": np.ones(rows, np.bool_)
                if is_scored
                else np.fromiter(map(is_finite_number, block.field(REWARD)), np.bool_, rows),
            },
        )
        self._heaps["answers"].extend(answers)
        self._fields.add(block)
        if with_prompts:
            self._prompts(block, keys["task"])

    def failures(self, block: RowBlock, file: int, *, lengths: Sequence[int] | None = None) -> None:
        """Add failed attempts. `lengths`: of their lines, where these are not the rows."""
        rows = len(block)
        attempts = block.field("attempt")
        layers, causes = zip(*map(self._layer_and_cause, block.texts), strict=True)
        commands = [command or _NO_COMMAND for command in recorded_commands(block)]
        self._tables["failures"].add(
            rows,
            self._keys(block, file, lengths)
            | {
                "attempt": np.fromiter(
                    (n if type(n) is int and 0 <= n < 2**31 else 1 for n in attempts),
                    np.int32,
                    rows,
                ),
                "class": self._coded("class").codes(block.field(FAILURE_CLASS)),
                "layer": self._coded("layer").codes(layers),
                "cause": self._coded("cause").codes(causes),
                "terminal": _true(block.field(FAILURE_TERMINAL)),
                "retriable": np.fromiter(
                    map(is_retriable, block.field(RETRIABLE), block.field(FAILURE_CLASS)),
                    np.bool_,
                    rows,
                ),
                "answered": np.fromiter(
                    (value is not None for value in block.field(RESPONSE)), np.bool_, rows
                ),
                "reverify": self._coded("reverify").codes([command.text for command in commands]),
                "needs_session": _true(command.needs_session for command in commands),
                "names_judge": _true(command.names_judge for command in commands),
            },
        )
        messages = block.field("message")
        self._heaps["messages"].extend(
            [text[:_MESSAGE_CHARACTERS] if isinstance(text, str) else "" for text in messages]
        )

    def _layer_and_cause(self, text: bytes) -> tuple[str, str]:
        """Return the layer and the cause of a failed attempt, as the doctor's table has them."""
        raw = split_row(_utf8(text)) or {}
        names = (FAILURE_LAYER, "cause", "message", "hops")
        return self._meanings.layer_and_cause(
            {name: decode_value(raw[name]) for name in names if name in raw}
        )

    @property
    def is_large(self) -> bool:
        """Whether so much is collected that it should be flushed."""
        is_long = any(table.rows > 20_000 for table in self._tables.values())
        return is_long or self._fields.is_large

    def flush(self) -> None:
        """Write everything collected. Raises OSError or StorageFull."""
        self._fields.flush()
        for table in self._tables.values():
            table.flush()
        for heap in (self._texts, *self._heaps.values()):
            heap.flush()

    # Keys, agents, families

    def _coded(self, field: str) -> TextCodes:
        if field not in self._codes:
            self._codes[field] = TextCodes(self._texts, longest=_LONGEST_NAME)
        return self._codes[field]

    def _keys(
        self, block: RowBlock, file: int, lengths: Sequence[int] | None = None
    ) -> dict[str, Any]:
        rows = len(block)
        line_lengths = map(len, block.texts) if lengths is None else lengths
        task, rollout = self._indices(block)
        return {
            "file": np.full(rows, file, np.uint32),
            "offset": np.array(block.offsets, np.int64),
            "length": np.fromiter(line_lengths, np.uint32, rows),
            "line": np.array(block.lines, np.uint32),
            "task": task,
            "rollout": rollout,
            "agent": self._agents(block, "name"),
            "agent_type": self._agents(block, "type"),
            "family": self._families(block),
        }

    def _indices(self, block: RowBlock) -> tuple[IntArray, IntArray]:
        tasks, rollouts = block.field(TASK_INDEX), block.field(ROLLOUT_INDEX)
        if set(map(type, tasks)) == set(map(type, rollouts)) == {int}:
            try:
                task, rollout = np.array(tasks, np.int64), np.array(rollouts, np.int64)
            except OverflowError:
                pass
            else:
                if len(task) and task.min() >= 0 and task.max() < _LARGEST_PLAIN:
                    return task, rollout
        pairs = [self._index(*pair) for pair in zip(tasks, rollouts, strict=True)]
        columns = np.array(pairs, np.int64).reshape(-1, 2)
        return columns[:, 0], columns[:, 1]

    def _index(self, task: Any, rollout: Any) -> tuple[int, int]:
        if type(task) not in {int, str} or type(rollout) is not int or abs(rollout) >= 2**63:
            return NO_TASK, 0
        if type(task) is int and 0 <= task < _LARGEST_PLAIN:
            return task, rollout
        return -2 - self._coded("task").code(json.dumps(task)), rollout

    def _agents(self, block: RowBlock, name: str) -> npt.NDArray[np.int32]:
        """Return the codes of the names or types of the agents; NO_TEXT without a name."""
        references = block.field(AGENT_REF)
        try:
            values = list(map(attrgetter(name), references))
        except AttributeError:  # a row without one
            values = [field_of(reference, name) for reference in references]
        return self._coded(f"agent {name}").codes(values)

    def _families(self, block: RowBlock) -> npt.NDArray[np.int32]:
        if not self._family:
            return np.full(len(block), NO_TEXT, np.int32)
        values = block.field(self._family[0])
        return self._coded("family").codes([family_of(v, self._family[1:]) for v in values])

    def _prompts(self, block: RowBlock, tasks: IntArray) -> None:
        """Add the prompts of the tasks that appear for the first time."""
        distinct, first = np.unique(tasks, return_index=True)
        new_tasks, prompts, prints = [], [], []
        for task, at in zip(distinct.tolist(), first.tolist(), strict=True):
            if task == NO_TASK or task in self._known_tasks:
                continue
            if len(self._known_tasks) >= _KNOWN_TASKS:
                self._known_tasks.clear()
            self._known_tasks[task] = None
            raw = split_row(_utf8(block.texts[at])) or {}
            new_tasks.append(task)
            prompts.append(question(_request(raw))[:PROMPT_CHARACTERS])
            prints.append(fingerprint(raw))
        if new_tasks:
            self._heaps["asked"].extend(prompts)
            columns = {
                "task": np.array(new_tasks, np.int64),
                "fingerprint": np.frombuffer(b"".join(prints), np.uint8),
            }
            self._tables["prompts"].add(len(new_tasks), columns)


def _has_items(values: Iterable[Any]) -> Any:
    return np.array([isinstance(value, list) and bool(value) for value in values], np.bool_)


def _true(values: Iterable[Any]) -> Any:
    return np.array([value is True for value in values], np.bool_)


def _utf8(text: bytes) -> bytes:
    """Return a line with a replacement character for each byte that is not UTF-8."""
    return text if text.isascii() else text.decode(errors="replace").encode()


def _request(raw: Mapping[str, msgspec.Raw]) -> JsonDict:
    return {CREATE_PARAMS: decode_value(raw[CREATE_PARAMS])} if CREATE_PARAMS in raw else {}
