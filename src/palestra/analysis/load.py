"""Loads a run: scans each of its files once and passes the result to `assemble`.

Memory grows with the number of rollouts times the number of numeric fields. Of a materialized row,
only the position in the file is kept. Responses are not kept.
"""

import gc
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np

from palestra.analysis.assemble import assemble
from palestra.analysis.frame import SCORED, AgentName, Endings, RunFrame
from palestra.analysis.manifests import check_one_run, requested_beside
from palestra.analysis.scan import (
    RecordedObject,
    RowBlock,
    RowReader,
    recorded_commands,
)
from palestra.analysis.sources import Files, failure_files, rollouts_beside, run_files
from palestra.analysis.tables import Codes, FailedAttempt, KeyTable, RowPlace, ScannedRun
from palestra.config import did_you_mean
from palestra.errors import ConfigError, InputDataError, KnownCause
from palestra.metrics import (
    RESPONSE,
    REWARD,
    ColumnBuilder,
    Columns,
    Nested,
    TaskIndex,
    finite,
    is_finite_number,
)
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    EMPTY_ANSWER,
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    OUTSIDE_REWARD_RULES,
    RETRIABLE,
    ROLLOUT_INDEX,
    TASK_INDEX,
    TOOL_FAILURES,
    is_retriable,
    is_truncated,
)
from palestra.system import shown

LONGEST_SHOWN = 60
LARGEST_VALUE = 1e100
"""The largest absolute reward. Sums of squares of such rewards do not overflow a double."""

_OF_THE_EXCHANGE: Final = frozenset({AGENT_REF, CREATE_PARAMS, RESPONSE})
_name_and_type = attrgetter("name", "type")


def load_run(
    inputs_path: Files | None,
    rollouts_path: Files,
    *,
    failures_path: Files | None = None,
    allow_partial: bool = False,
    allow_unscored: bool = False,
    group_by: str | None = None,
    allow_ungrouped: bool = True,
) -> RunFrame:
    """Read the materialized rows, the rollouts and the failures of a run.

    Each argument may be one file, a glob of shards, or several files, plain or compressed (gzip,
    zstd). Without `inputs_path` or `failures_path`, these files are found by name next to the
    rollouts. `allow_partial` accepts requests without a rollout and an incomplete last line.
    `allow_unscored` accepts a run in which nothing was scored; not every function reads its frame.
    `group_by` names a string field of the rows (`task_name`, or a field inside an object, such as
    `metadata.source_dataset`). `allow_ungrouped`: when no row has a text in this field, a notice
    says so.

    Raises InputDataError: a file is invalid, a key occurs twice, a rollout has no materialized row,
    or (without `allow_partial`) a request has no rollout. Raises MixedRuns: the manifests show that
    the files belong to different runs. Raises ConfigError: without `allow_ungrouped`, no row has a
    text in the field `group_by`.
    """
    inputs_from, rollouts_from = run_files(inputs_path, rollouts_path)
    unvouched, missing_shards = check_one_run(inputs_from, rollouts_from)
    failures_from = failure_files(failures_path, rollouts_from)
    scan = _Scan(group_by)
    with without_garbage():
        inputs = scan.inputs(inputs_from)
        rollouts, columns, endings = scan.rollouts(
            rollouts_from, allow_partial=allow_partial, may_be_empty=allow_unscored
        )
        failures = scan.failures(failures_from)
    ungrouped = scan.ungrouped()
    if ungrouped and not allow_ungrouped:
        raise ConfigError(ungrouped, hint=f"the fields: {', '.join(scan.fields)}")
    scanned = ScannedRun(
        tasks=scan.tasks,
        agents=scan.agents,
        families=scan.families if group_by else None,
        inputs=inputs,
        rollouts=rollouts,
        columns=columns,
        endings=endings,
        failures=failures,
        failure_files=failures_from,
        notices=(*unvouched, *scan.notices, *filter(None, [ungrouped])),
        missing_shards=missing_shards,
    )
    return assemble(scanned, allow_partial=allow_partial)


@contextmanager
def without_garbage() -> Iterator[None]:
    """Disable the garbage collector during a scan. Rows have no reference cycles, and collection
    takes a fifth of the scan.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Scan:
    """Reads the files of one run and numbers tasks, agents and families consistently across them."""

    def __init__(self, group_by: str | None) -> None:
        self.tasks: Codes[TaskIndex] = Codes()
        self.agents: Codes[AgentName] = Codes()
        self.families: Codes[str] = Codes()
        self.notices: list[str] = []
        self._group_by = group_by.split(".") if group_by else []
        self._reader = RowReader(self._group_by)
        self._failure_reader = RowReader(nested=RecordedObject)

    def inputs(self, paths: Sequence[Path]) -> KeyTable:
        table = KeyTable()
        for path in paths:
            before = len(table)
            table.begin(path)
            for block in self._reader.blocks(path):
                _refuse_other_than_inputs(block)
                self._keep(table, block)
            requested = requested_beside(path)
            if requested is not None and len(table) - before < requested:
                raise InputDataError(
                    f"{path} has {len(table) - before} rows, and its manifest says {requested}",
                    hint="the file is incomplete: copy it again, or resume the run",
                    cause=KnownCause.BROKEN_MANIFEST,
                )
        return table

    def rollouts(
        self, paths: Sequence[Path], *, allow_partial: bool, may_be_empty: bool
    ) -> tuple[KeyTable, Columns, Endings]:
        table, columns = KeyTable(), ColumnBuilder()
        truncated, empty, broken, outside = (array("b") for _ in range(4))
        torn = self.notices if allow_partial else None
        # a shard in which nothing was scored is none of the others' fault
        may_lack_rows = may_be_empty or len(paths) > 1
        for path in paths:
            table.begin(path)
            for block in self._reader.blocks(path, torn=torn, may_be_empty=may_lack_rows):
                _refuse_other_than_rollouts(block)
                self._keep(table, block)
                columns.add(block.fields, len(block))
                truncated.extend(map(is_truncated, block.field(RESPONSE)))
                empty.extend(value is True for value in block.field(EMPTY_ANSWER))
                broken.extend(map(_has_items, block.field(TOOL_FAILURES)))
                outside.extend(map(_has_items, block.field(OUTSIDE_REWARD_RULES)))
        endings = Endings(*(np.array(it, np.bool_) for it in (truncated, empty, broken, outside)))
        if not len(table):
            if not may_be_empty:
                raise InputDataError(f"{paths[0]} and its other shards have no rows")
            return table, Columns({REWARD: np.empty(0)}, frozenset()), endings
        self.notices += _not_finite(columns.not_finite)
        return table, columns.build(), endings

    def failures(self, paths: Sequence[Path]) -> dict[tuple[TaskIndex, int], FailedAttempt]:
        """Return the last failed attempt of each key, combined with the earlier attempts."""
        last: dict[tuple[TaskIndex, int], FailedAttempt] = {}
        for number, path in enumerate(paths):
            for block in self._failure_reader.blocks(path, torn=self.notices, may_be_empty=True):
                for key, failure in zip(_keys(block), _failures(block, number), strict=True):
                    last[key] = failure.together(last[key]) if key in last else failure
        return last

    @property
    def fields(self) -> Sequence[str]:
        """The names of the rows' own fields, without those of the exchange with the model."""
        names = (name for name in self._reader.names if not name.startswith("_"))
        return sorted({*names} - _OF_THE_EXCHANGE)

    def ungrouped(self) -> str:
        """Return why no row has a group, with the nearest field; empty when one has, and without
        `group_by`.
        """
        if not self._group_by or self.families.names:
            return ""
        first, near = self._group_by[0], ""
        if first not in self._reader.names:
            near = did_you_mean(first, self.fields)
        return no_group(".".join(self._group_by), near)

    def _keep(self, table: KeyTable, block: RowBlock) -> None:
        tasks, rollouts = _indices(block)
        table.blocks.append(len(table))
        table.lines.append(block.lines)
        table.task.extend(self.tasks.codes(tasks))
        table.rollout.extend(rollouts)
        table.offset.extend(array("q", block.offsets))
        table.agent.extend(_agent_codes(self.agents, block.field(AGENT_REF)))
        if self._group_by:
            families = block.field(self._group_by[0])
            names = [family_of(value, self._group_by[1:]) for value in families]
            table.family.extend(_family_codes(self.families, names))


def no_group(field: str, near: str) -> str:
    """Return the message that no row has a text in `field`. `near`: its end, with a similar field."""
    return f"no row has a text in {field!r} to group by{near}"


def _has_items(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def _family_codes(families: Codes[str], names: Sequence[str | None]) -> "array[int]":
    """Return the family code of each row, -1 for a row without a family."""
    known_names = [name for name in dict.fromkeys(names) if name is not None]
    numbers: dict[str | None, int] = dict(
        zip(known_names, families.codes(known_names), strict=True)
    )
    numbers[None] = -1
    return array("q", map(numbers.__getitem__, names))


def _agent_codes(agents: Codes[AgentName], refs: Sequence[object]) -> "array[int]":
    """Return the agent code of each row, from its agent reference; -1 without one."""
    try:
        names = list(map(_name_and_type, refs))
    except AttributeError:  # a row without one
        names = [(getattr(ref, "name", None), getattr(ref, "type", None)) for ref in refs]
    try:
        numbers = {name: _agent_code(agents, *name) for name in set(names)}
    except TypeError:  # a name that is a list or an object
        return array("q", (_agent_code(agents, *name) for name in names))
    return array("q", map(numbers.__getitem__, names))


def _agent_code(agents: Codes[AgentName], name: object, kind: object) -> int:
    if not isinstance(name, str):
        return -1
    return agents.codes([AgentName(name, kind if isinstance(kind, str) else "")])[0]


def family_of(value: Any, inner: Sequence[str]) -> str | None:
    """Return the text found by following the names `inner` from the field `value`; None if it is
    not a text.
    """
    for depth, name in enumerate(inner):
        if depth == 0:
            value = getattr(value, "family", None)
        else:
            value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _keys(block: RowBlock) -> Iterator[tuple[TaskIndex, int]]:
    tasks, rollouts = _indices(block)
    return zip(tasks, rollouts, strict=True)


def _indices(block: RowBlock) -> tuple[Sequence[TaskIndex], "array[int]"]:
    """Return the task and rollout indices of a block. Raises InputDataError: a task index is
    neither an integer nor a name, or a rollout index is not an integer.
    """
    tasks, rollouts = block.field(TASK_INDEX), block.field(ROLLOUT_INDEX)
    if set(map(type, tasks)) <= {int, str} and set(map(type, rollouts)) <= {int}:
        try:
            return tasks, array("q", rollouts)
        except OverflowError:
            raise _bad_index(block) from None
    raise _bad_index(block)


def _bad_index(block: RowBlock) -> InputDataError:
    for name, kinds, what in (
        (TASK_INDEX, {int, str}, "an integer or a name"),
        (ROLLOUT_INDEX, {int}, "an integer"),
    ):
        for at, value in enumerate(block.field(name)):
            where = f"{block.path} line {block.lines[at]}"
            if value is None:
                return InputDataError(
                    f"{where} has no {name}",
                    hint="pass files that `palestra collect` wrote; a plain dataset has no indices",
                )
            if type(value) not in kinds or (name == ROLLOUT_INDEX and abs(value) >= 2**63):
                return InputDataError(
                    f"{where}: {name} is {_value_text(value)}, not {what}",
                    hint="pass the files as `palestra collect` wrote them",
                )
    raise AssertionError("a block was refused without a reason")


def _refuse_other_than_inputs(block: RowBlock) -> None:
    if block.fields.keys().isdisjoint({REWARD, FAILURE_CLASS}):
        return
    columns = map(block.field, (REWARD, RESPONSE, CREATE_PARAMS, FAILURE_CLASS))
    for at, (reward, response, params, failed) in enumerate(zip(*columns, strict=True)):
        scored = reward is not None and (response is not None or params is None)
        if scored or failed is not None:
            holds, has = ("rollouts", "a reward") if scored else ("failures", FAILURE_CLASS)
            where = block.place(at).removeprefix(f"{block.path} ")
            raise InputDataError(
                f"{block.path} holds {holds}, not materialized inputs: {where} has {has}",
                hint="pass the run's <stem>_materialized_inputs.jsonl as the inputs",
            )


_ROLLOUTS_HINT = "give the file that the run's output_jsonl_fpath names, not its inputs or failures"


def _refuse_other_than_rollouts(block: RowBlock) -> None:
    """Raise InputDataError unless every row has a finite reward within ±LARGEST_VALUE."""
    rewards = block.field(REWARD)
    column = finite(rewards)
    if column is not None:
        _refuse_beyond_arithmetic(block, column)
        return
    at = next(at for at, reward in enumerate(rewards) if not is_finite_number(reward))
    if not any(block.has(at, REWARD) for at in range(len(block))):
        first_names = ""
        hint = _ROLLOUTS_HINT
        if block.has(0, FAILURE_CLASS):
            first_names = "; these are failures"
            if (own_rollouts := rollouts_beside(Path(block.path))) is not None:
                hint = f"the rollouts of this run are in {shown(own_rollouts)}"
        elif block.has(0, CREATE_PARAMS):
            first_names = "; these look like materialized inputs"
        raise InputDataError(
            f"{block.path} holds no rollouts: no row has a reward, from line {block.lines[0]} on"
            + first_names,
            hint=hint,
        )
    if not block.has(at, REWARD):
        raise InputDataError(f"{block.place(at)}: the row has no reward", hint=_UNSCORED_HINT)
    raise InputDataError(
        f"{block.place(at)}: the reward is {_value_text(rewards[at])}, not a finite number",
        hint=_UNSCORED_HINT,
    )


def _refuse_beyond_arithmetic(block: RowBlock, rewards: "array[float]") -> None:
    beyond = np.flatnonzero(np.abs(rewards) > LARGEST_VALUE)
    if len(beyond):
        at = int(beyond[0])
        raise InputDataError(
            f"{block.place(at)}: the reward is {_value_text(block.field(REWARD)[at])}, and "
            f"statistics need values within ±{LARGEST_VALUE:g}",
            hint="scale the rewards in the verifier, then score the run again with "
            "`palestra reverify`",
        )


_UNSCORED_HINT = (
    "only scored rows belong in this file: run the verifier over it again with `palestra "
    "reverify`, or remove the row, and `palestra profile --allow-partial` profiles the rest"
)


def _failures(block: RowBlock, file: int) -> Iterator[FailedAttempt]:
    names = (FAILURE_CLASS, "attempt", FAILURE_TERMINAL, RETRIABLE, RESPONSE)
    columns = zip(*map(block.field, names), recorded_commands(block), strict=True)
    for at, (failure_class, attempt, terminal, retriable, response, command) in enumerate(columns):
        if not isinstance(failure_class, str) or failure_class == SCORED:
            raise InputDataError(
                f"{block.place(at)} has no {FAILURE_CLASS}",
                hint="pass the run's <stem>_failures.jsonl as the failures",
            )
        row_place = RowPlace(file, block.offsets[at])
        yield FailedAttempt(
            attempt if isinstance(attempt, int) else 1,
            failure_class,
            terminal=terminal is True,
            retriable=is_retriable(retriable, failure_class),
            place=row_place,
            answer_place=row_place if response is not None else None,
            reverify=command,
        )


def _not_finite(counts: Mapping[str, int]) -> Iterator[str]:
    for name, count in sorted(counts.items()):
        values = "value is" if count == 1 else "values are"
        yield f"{name}: {count} {values} not finite and left out of its statistics"


def _value_text(value: object) -> str:
    """Return the value as JSON, shortened; `an object` or `a list` for a nested value."""
    if isinstance(value, Nested | list):
        return "an object" if isinstance(value, Nested) else "a list"
    text = "null" if value is None else value if isinstance(value, str) else str(value)
    text = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
    return f'"{text}"' if isinstance(value, str) else text
