"""Takes the indexed values out of blocks of rows and appends them to columns.

The columns of the tables `inputs`, `results` and `failures` are in file order, one value per row. A
task that is a plain integer is stored as it is, any other as `-2 - n`, where n is the number of its
JSON text in the heap `texts`; NO_TASK marks a row without indices.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from palestra.analysis import (
    UNREADABLE,
    RowBlock,
    decode_value,
    family_of,
    fingerprint,
    question,
    split_row,
)
from palestra.metrics import (
    INDICES,
    RESPONSE,
    REWARD,
    ColumnBuilder,
    IntArray,
    Nested,
    finite,
    is_finite_number,
)
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    EMPTY_ANSWER,
    FAILURE_CLASS,
    FAILURE_LAYER,
    FAILURE_TERMINAL,
    RETRIABLE,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    field_of,
    is_truncated,
    model_turns,
    reverify_in,
)
from palestra.viewer.index.heaps import HeapWriter
from palestra.viewer.index.storage import StoredColumns

NO_TASK: Final = -1
NO_TEXT: Final = -1
SHORT_TEXT: Final = 64
"""The largest number of characters of a text that is a field."""
ANSWER_CHARACTERS: Final = 200
MOST_FIELDS: Final = 200
"""The largest number of fields taken from rows, apart from those that every rollout has."""
BETWEEN: Final = "\x1f"
"""Stands around each name of the tools of a rollout."""
_REMEMBERED: Final = 4_096
_LONGEST_NAME: Final = 10_000
_LARGEST_PLAIN: Final = 2**62
_CALL: Final = "function_call"
_NO_OUTPUT: Final = (0, 0, "", "")
_MESSAGE: Final = ("message", None)
_MODEL: Final = ("assistant", None)
_NOT_FIELDS: Final = INDICES | {AGENT_REF, RESPONSE, CREATE_PARAMS, FAILURE_CLASS}


_OF_EVERY_ROW: Final[Mapping[str, npt.DTypeLike]] = {
    "file": np.uint32,
    "offset": np.int64,
    "length": np.uint32,
    "line": np.uint32,
    "task": np.int64,
    "rollout": np.int64,
    "agent": np.int32,
    "agent_type": np.int32,
    "family": np.int32,
}
_TYPES: Final[Mapping[str, Mapping[str, npt.DTypeLike]]] = {
    "inputs": _OF_EVERY_ROW,
    "results": {
        **_OF_EVERY_ROW,
        "truncated": np.bool_,
        "empty": np.bool_,
        "turns": np.int32,
        "calls": np.int32,
        "tools": np.int32,
        "scored": np.bool_,
    },
    "failures": {
        **_OF_EVERY_ROW,
        "attempt": np.int32,
        "class": np.int32,
        "layer": np.int32,
        "cause": np.int32,
        "terminal": np.bool_,
        "retriable": np.bool_,
        "answered": np.bool_,
        "reverify": np.int32,
    },
    "prompts": {"task": np.int64, "fingerprint": np.uint8},
    "texts": {"heap": np.uint8, "ends": np.int64},
    "answers": {"heap": np.uint8, "ends": np.int64},
    "messages": {"heap": np.uint8, "ends": np.int64},
    "asked": {"heap": np.uint8, "ends": np.int64},
}
COLUMN_TYPES: Final = {
    f"{table}.{column}": kind
    for table, columns in _TYPES.items()
    for column, kind in columns.items()
}
"""The type of every column that does not depend on the rows."""


class OutputItem(msgspec.Struct, gc=False):
    """What is decoded of an item of a response."""

    type: Any = None
    role: Any = None
    name: Any = None
    content: msgspec.Raw = msgspec.Raw(b"null")


class IndexedObject(Nested, gc=False):
    """What is decoded of an object inside a row."""

    output: list[OutputItem] | str | None = None


class _ContentPart(msgspec.Struct, gc=False):
    text: str | None = None


_decode_content: Final = msgspec.json.Decoder(list[_ContentPart] | str | None).decode


class TextCodes:
    """Numbers short texts by their position in the heap `texts`. A text may get several numbers:
    only the last few thousand are remembered. `longest`: in characters; longer ones have no number.
    """

    def __init__(self, heap: HeapWriter, *, longest: int) -> None:
        self._heap, self._longest = heap, longest
        self._codes: dict[Any, int] = {}

    def code(self, text: str) -> int:
        """Return the number of one text."""
        code = self._codes.get(text)
        if code is None:
            if len(self._codes) >= _REMEMBERED:
                self._codes.clear()
            code = self._codes[text] = self._heap.add(text)
        return code

    def codes(self, values: Sequence[Any]) -> npt.NDArray[np.int32]:
        """Return the number of each value; NO_TEXT for one that is not a short text."""
        try:
            distinct = dict.fromkeys(values)
        except TypeError:  # lists and objects
            values = [value if type(value) is str else None for value in values]
            distinct = dict.fromkeys(values)
        if len(distinct) > _REMEMBERED:
            return np.fromiter(map(self._code_or_none, values), np.int32, len(values))
        codes = {value: self._code_or_none(value) for value in distinct}
        return np.fromiter(map(codes.__getitem__, values), np.int32, len(values))

    def _code_or_none(self, value: Any) -> int:
        if type(value) is str and len(value) <= self._longest:
            return self.code(value)
        return NO_TEXT


class FieldState(msgspec.Struct):
    """A field taken from rows: its column, and what its values are."""

    column: str
    whole: bool = True
    boolean: bool = True


class FieldStates(msgspec.Struct):
    """The fields taken from result rows, in order of appearance."""

    numbers: dict[str, FieldState] = {}
    texts: dict[str, str] = {}
    left_out: int = 0
    """How many fields beyond MOST_FIELDS were left out, counted once per batch."""


class TableWriter:
    """Collects the columns of one table until `flush`."""

    def __init__(self, columns: StoredColumns, name: str) -> None:
        self._columns, self._name = columns, name
        self._parts: dict[str, list[Any]] = {}
        self.rows = 0
        """The rows that are collected and not yet flushed."""

    def add(self, rows: int, values: Mapping[str, Any]) -> None:
        """Add rows. `values`: per column, an array."""
        for column, array in values.items():
            self._parts.setdefault(column, []).append(array)
        self.rows += rows

    def flush(self) -> None:
        """Write what was collected. Raises OSError or StorageFull."""
        for column, parts in self._parts.items():
            kind = _TYPES[self._name][column]
            self._columns.append(f"{self._name}.{column}", np.concatenate(parts).astype(kind))
        self._parts, self.rows = {}, 0


class Extraction:
    """Takes values out of the rows of one run. `family`: the path of the `group_by` field. `rows`:
    how many result rows are in the columns already.
    """

    def __init__(
        self, columns: StoredColumns, fields: FieldStates, *, family: Sequence[str], rows: int
    ) -> None:
        self._columns, self.fields = columns, fields
        self._texts = HeapWriter(columns, "texts")
        self._heaps = {name: HeapWriter(columns, name) for name in ("answers", "asked", "messages")}
        self._tables = {
            name: TableWriter(columns, name)
            for name in ("inputs", "results", "failures", "prompts")
        }
        self._codes: dict[str, TextCodes] = {}
        self._family = family
        self._builder = ColumnBuilder()
        self._boolean: dict[str, bool] = {}
        self._text_parts: dict[str, list[tuple[int, npt.NDArray[np.int32]]]] = {}
        self._known_tasks: dict[int, None] = {}
        self._result_rows = rows

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
        turns, calls, tools, answers = zip(*map(_described, responses), strict=True)
        is_scored = finite(block.field(REWARD)) is not None
        self._tables["results"].add(
            rows,
            keys
            | {
                "truncated": np.fromiter(map(is_truncated, responses), np.bool_, rows),
                "empty": _true(block.field(EMPTY_ANSWER)),
                "turns": np.array(turns, np.int32),
                "calls": np.array(calls, np.int32),
                "tools": self._coded("tools").codes(tools),
                "scored": np.ones(rows, np.bool_)
                if is_scored
                else np.fromiter(map(is_finite_number, block.field(REWARD)), np.bool_, rows),
            },
        )
        self._heaps["answers"].extend(answers)
        self._take_fields(block)
        if with_prompts:
            self._prompts(block, keys["task"])

    def failures(self, block: RowBlock, file: int, *, lengths: Sequence[int] | None = None) -> None:
        """Add failed attempts. `lengths`: of their lines, where these are not the rows."""
        rows = len(block)
        attempts = block.field("attempt")
        hints = block.field("hint")
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
                "layer": self._coded("layer").codes(block.field(FAILURE_LAYER)),
                "cause": self._coded("cause").codes(block.field("cause")),
                "terminal": _true(block.field(FAILURE_TERMINAL)),
                "retriable": _true(block.field(RETRIABLE)),
                "answered": np.fromiter(
                    (value is not None for value in block.field(RESPONSE)), np.bool_, rows
                ),
                "reverify": self._coded("reverify").codes(
                    [reverify_in(hint) if isinstance(hint, str) else "" for hint in hints]
                ),
            },
        )
        messages = block.field("message")
        self._heaps["messages"].extend(
            [text[:ANSWER_CHARACTERS] if isinstance(text, str) else "" for text in messages]
        )

    @property
    def is_large(self) -> bool:
        """Whether so much is collected that it should be flushed."""
        return (
            any(table.rows > 20_000 for table in self._tables.values())
            or len(self._builder) > 2 * MOST_FIELDS
        )

    def flush(self) -> None:
        """Write everything collected. Raises OSError or StorageFull."""
        rows = self._tables["results"].rows
        self._flush_fields(rows)
        self._result_rows += rows
        for table in self._tables.values():
            table.flush()
        for heap in (self._texts, *self._heaps.values()):
            heap.flush()

    # Keys, agents, families

    def _coded(self, field: str) -> TextCodes:
        if field not in self._codes:
            longest = SHORT_TEXT if field.startswith("field ") else _LONGEST_NAME
            self._codes[field] = TextCodes(self._texts, longest=longest)
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
            if len(self._known_tasks) >= 16 * _REMEMBERED:
                self._known_tasks.clear()
            self._known_tasks[task] = None
            raw = split_row(block.texts[at]) or {}
            new_tasks.append(task)
            prompts.append(question(_request(raw))[:ANSWER_CHARACTERS])
            prints.append(fingerprint(raw))
        if new_tasks:
            self._heaps["asked"].extend(prompts)
            columns = {
                "task": np.array(new_tasks, np.int64),
                "fingerprint": np.frombuffer(b"".join(prints), np.uint8),
            }
            self._tables["prompts"].add(len(new_tasks), columns)

    # Fields

    def _take_fields(self, block: RowBlock) -> None:
        first = self._tables["results"].rows - len(block)
        self._builder.add(block.fields, len(block))
        for name, values in block.fields.items():
            kinds = set(map(type, values))
            if bool in kinds or int in kinds or float in kinds:
                only = kinds <= {bool, type(None)}
                self._boolean[name] = self._boolean.get(name, True) and only
            if str in kinds and name not in _NOT_FIELDS and self._may_have_text(name):
                codes = self._coded(f"field {name}").codes(values)
                if (codes != NO_TEXT).any():
                    self._text_parts.setdefault(name, []).append((first, codes))

    def _may_have_text(self, name: str) -> bool:
        texts = self.fields.texts
        if name in texts or len(texts) + len(self._text_parts) < MOST_FIELDS:
            return True
        self.fields.left_out += name not in self._text_parts
        return name in self._text_parts

    def _flush_fields(self, rows: int) -> None:
        if not rows:
            return
        built = self._builder.build()
        self._builder = ColumnBuilder()
        states = self.fields.numbers
        for name, values in built.values.items():
            if name not in states:
                if len(states) >= MOST_FIELDS:
                    self.fields.left_out += 1
                    continue
                states[name] = FieldState(f"results.number{len(states)}")
                self._pad(states[name].column, np.nan, np.float64)
            state = states[name]
            state.whole &= name in built.whole
            state.boolean &= self._boolean.get(name, False)
            self._columns.append(state.column, values)
        for name, state in states.items():
            if name not in built.values:
                self._columns.append(state.column, np.full(rows, np.nan))
        self._flush_texts(rows)
        self._boolean = {}

    def _flush_texts(self, rows: int) -> None:
        columns = self.fields.texts
        for name in self._text_parts:
            if name not in columns:
                columns[name] = f"results.text{len(columns)}"
                self._pad(columns[name], NO_TEXT, np.int32)
        for name, column in columns.items():
            values = np.full(rows, NO_TEXT, np.int32)
            for first, codes in self._text_parts.get(name, ()):
                values[first : first + len(codes)] = codes
            self._columns.append(column, values)
        self._text_parts = {}

    def _pad(self, column: str, value: float, dtype: Any) -> None:
        """Write a column for the rows before a field's first appearance."""
        self._columns.append(column, np.full(self._result_rows, value, dtype))


def _described(response: Any) -> tuple[int, int, str, str]:
    """Return the model's turns, its tool calls, the names of the tools, and the answer's end."""
    output = getattr(response, "output", response)
    if type(output) is not list:
        return (1, 0, "", output[-ANSWER_CHARACTERS:]) if isinstance(output, str) else _NO_OUTPUT
    if output and type(output[0]) is not OutputItem:
        output = list(map(_as_item, output))
    names = [item.name for item in output if item.type == _CALL]
    return model_turns(output), len(names), _tool_names(names) if names else "", _answer(output)


def _as_item(item: Any) -> OutputItem:
    """Return an item that only Python's own JSON could read."""
    return OutputItem(*(field_of(item, name) for name in OutputItem.__struct_fields__))


def _tool_names(names: Sequence[Any]) -> str:
    distinct = sorted({name for name in names if isinstance(name, str)})
    return f"{BETWEEN}{BETWEEN.join(distinct)}{BETWEEN}" if distinct else ""


def _answer(items: Sequence[OutputItem]) -> str:
    """Return the end of the last message of the model."""
    for item in reversed(items):
        if item.type in _MESSAGE and item.role in _MODEL:
            text = _text(item.content)
            if text:
                return text[-ANSWER_CHARACTERS:]
    return ""


def _text(content: Any) -> str:
    try:
        parts = _decode_content(content)
    except (*UNREADABLE, TypeError):
        parts = decode_value(content) if isinstance(content, msgspec.Raw) else content
    if isinstance(parts, str):
        return parts
    if not isinstance(parts, list):
        return ""
    texts = (part if isinstance(part, str) else field_of(part, "text") for part in parts)
    return "\n".join([text for text in texts if isinstance(text, str) and text])


def _true(values: Iterable[Any]) -> Any:
    return np.array([value is True for value in values], np.bool_)


def _request(raw: Mapping[str, msgspec.Raw]) -> JsonDict:
    return {CREATE_PARAMS: decode_value(raw[CREATE_PARAMS])} if CREATE_PARAMS in raw else {}
