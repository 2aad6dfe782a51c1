"""Plan the merged files by numbers: order, duplicates, conflicts, gaps, accounting.

The keys of all files are numbered together, so comparing two numbers compares (task, rollout). The
result does not depend on the order of shards or of rows in them.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palestra.engine import Accounting, AccountingError
from palestra.errors import InputDataError, KnownCause
from palestra.rollouts.merging.completeness import Completeness
from palestra.rollouts.merging.scan import (
    OUTCOMES,
    BoolArray,
    FailureColumns,
    IntArray,
    RowColumns,
    Scanned,
    ScoredColumns,
    numbers,
)
from palestra.rollouts.merging.sources import (
    MOST_NAMED,
    NumberedFiles,
    RowPlace,
    RunSize,
    ShardToMerge,
    missing_parts,
)
from palestra.schema import RolloutKey

Read = Callable[[RowPlace], bytes]


@dataclass(frozen=True, slots=True)
class Rows:
    """The positions of rows, in the order in which they are written."""

    source: IntArray
    offset: IntArray
    length: IntArray

    @classmethod
    def of(cls, table: RowColumns, order: IntArray) -> "Rows":
        """Return where rows of `table` are stored. `order`: their row numbers, in output order."""
        columns = (table.source, table.offset, table.length)
        return cls(*(numbers(column)[order] for column in columns))

    def __len__(self) -> int:
        return len(self.source)

    @property
    def size(self) -> int:
        """The total size of all rows in bytes."""
        return int(self.length.sum())

    def stretches(self) -> Iterator[RowPlace]:
        """Yield where the rows lie, in order. Rows that follow each other in one file are one place."""
        if not len(self):
            return
        end = self.offset + self.length
        cut = (self.source[1:] != self.source[:-1]) | (self.offset[1:] != end[:-1])
        starts = np.concatenate([[0], np.flatnonzero(cut) + 1])
        lengths = np.add.reduceat(self.length, starts)
        columns = (self.source[starts], self.offset[starts], lengths)
        for source, offset, length in zip(*(c.tolist() for c in columns), strict=True):
            yield RowPlace(source, offset, length)


@dataclass(frozen=True, slots=True)
class Decision:
    """The contents of the merged files, and their completeness."""

    inputs: Rows | None
    scored: Rows
    failures: Rows
    accounting: Accounting
    completeness: Completeness
    notices: tuple[str, ...]


def decide(
    scanned: Scanned,
    shards: Sequence[ShardToMerge],
    sources: NumberedFiles,
    run_size: RunSize | None = None,
) -> Decision:
    """Order the rows and account for them. `run_size`: the size of the run; default: as the shards say.

    Raises InputDataError: a row was not requested, or two rows with one key differ.
    """
    merging = _Merging(scanned, shards, sources, run_size or shards[0].run_size)
    inputs = merging.inputs()
    scored, notices = merging.scored()
    failures = merging.failures()
    merging.check_membership()
    accounting, completeness = merging.account(inputs, scored, failures)
    return Decision(
        None if scanned.inputs is None else Rows.of(scanned.inputs, inputs),
        Rows.of(scanned.scored, scored),
        Rows.of(scanned.failures, failures),
        accounting,
        completeness,
        tuple(notices),
    )


class _Merging:
    """The columns of all files with numbered keys, and the methods that plan the merge from them."""

    def __init__(
        self,
        scanned: Scanned,
        shards: Sequence[ShardToMerge],
        sources: NumberedFiles,
        run_size: RunSize,
    ) -> None:
        self._scanned = scanned
        self._run_size = run_size
        self._shards = shards
        self._sources = sources
        tables: list[RowColumns] = [scanned.scored, scanned.failures]
        if scanned.inputs is not None:
            tables.append(scanned.inputs)
        self._tasks, codes = np.unique(
            np.concatenate([numbers(table.task) for table in tables]), return_inverse=True
        )
        self._rollouts, ranks = np.unique(
            np.concatenate([numbers(table.rollout) for table in tables]), return_inverse=True
        )
        # At most rows * rows, which a 64-bit number holds.
        self._known, keys = np.unique(
            codes.astype(np.int64) * max(len(self._rollouts), 1) + ranks, return_inverse=True
        )
        ends = np.cumsum([len(table) for table in tables])
        self._scored, self._failed, *input_keys = np.split(keys, ends[:-1])
        self._inputs: IntArray = input_keys[0] if input_keys else np.arange(len(self._known))

    def inputs(self) -> IntArray:
        """Return the materialized rows to write; without materialized files, one number for each
        key.
        """
        table = self._scanned.inputs
        if table is None:
            return np.arange(len(self._inputs))
        order, conflicts, _ = _distinct(self._inputs, table, self._sources.read)
        self._refuse(self._inputs, table, conflicts, "materialized")
        return order

    def scored(self) -> tuple[IntArray, list[str]]:
        """Return the scored rows to write, and notices about rows that are left out."""
        table = self._scanned.scored
        order, conflicts, repeated = _distinct(self._scored, table, self._sources.read)
        self._refuse(self._scored, table, conflicts, "scored")
        if not repeated:
            return order, []
        return order, [
            f"{repeated} scored rows were there more than once, byte by byte; one is kept"
        ]

    def failures(self) -> IntArray:
        """Return the failed attempts without duplicates, sorted by key, attempt and bytes."""
        table = self._scanned.failures
        attempt = numbers(table.attempt)
        order = np.lexsort((attempt, self._failed))
        starts = _starts(self._failed[order], attempt[order])
        failure_rows: list[int] = []
        for start, end in itertools.pairwise([*starts, len(order)]):
            rows = order[start:end].tolist()
            if len(rows) > 1:
                by_text = {self._sources.read(table.place(row)): row for row in reversed(rows)}
                rows = [by_text[text] for text in sorted(by_text)]
            failure_rows += rows
        return np.array(failure_rows, dtype=np.int64)

    def check_membership(self) -> None:
        """Raise InputDataError: a result has no materialized row in its own shard."""
        table = self._scanned.inputs
        if table is None:
            return
        width = len(self._known)
        expected_keys = numbers(table.shard) * width + self._inputs
        for rows, keys in (
            (self._scanned.scored, self._scored),
            (self._scanned.failures, self._failed),
        ):
            stray = np.flatnonzero(~np.isin(numbers(rows.shard) * width + keys, expected_keys))
            if len(stray):
                raise self._not_asked(rows, keys, stray)

    def account(
        self, inputs: IntArray, scored: IntArray, failures: IntArray
    ) -> tuple[Accounting, Completeness]:
        """Count how every rollout of the run ended. `inputs`, `scored`, `failures`: the rows to
        write.
        """
        requested_keys, has_score = self._inputs[inputs], self._scored[scored]
        requested, tasks = self._run_size
        if self._shards[0].manifest is None:
            requested, tasks = len(requested_keys), len(np.unique(self._task_codes(requested_keys)))
        self._check_sizes(requested, len(requested_keys))
        accounting = Accounting(requested)
        _add_scored(accounting, self._scanned.scored, scored)
        given_up = self._add_failures(accounting, failures, has_score)
        has_ended = np.isin(requested_keys, np.concatenate([has_score, given_up]))
        completeness = self._completeness(requested_keys, has_ended, requested, tasks)
        if accounting.scored + accounting.failed != completeness.ended:
            raise AccountingError(
                f"{accounting.line()}, but {completeness.ended} materialized rows have ended",
                hint="this is a bug in Palestra; please report it with the shards",
            )
        if completeness.complete:
            accounting.check()
        return accounting, completeness

    def _add_failures(
        self, accounting: Accounting, failures: IntArray, has_score: IntArray
    ) -> IntArray:
        """Count the rollouts that failed for good, and return their keys."""
        table: FailureColumns = self._scanned.failures
        keys = self._failed[failures]
        # In order of attempts, so a key's last one, which decides, is before the next key.
        last = np.flatnonzero(np.append(keys[1:] != keys[:-1], np.ones(min(len(keys), 1), bool)))
        last = last[~np.isin(keys[last], has_score)]
        final = last[numbers(table.terminal)[failures][last] == 1]
        classes = numbers(table.outcome)[failures][final]
        for code, count in enumerate(np.bincount(classes, minlength=len(OUTCOMES)).tolist()):
            if count:
                accounting.ended[OUTCOMES[code]] += count
        # The last failure of a rollout without a score was not followed by another attempt.
        accounting.retried_attempts = len(failures) - len(last)
        given_up: IntArray = keys[final]
        return given_up

    def _completeness(
        self, requested_keys: IntArray, has_ended: BoolArray, requested: int, tasks: int
    ) -> Completeness:
        open_keys = requested_keys[~has_ended]
        task_of = self._task_codes(requested_keys)
        of_task = np.bincount(task_of, minlength=1)
        ended_of_task = np.bincount(task_of[has_ended], minlength=1)
        ended_of_task = np.pad(ended_of_task, (0, len(of_task) - len(ended_of_task)))
        unknown = requested - len(requested_keys)
        parts, missing = missing_parts(self._shards) if unknown else (0, [])
        return Completeness(
            requested=requested,
            ended=int(has_ended.sum()),
            tasks=tasks,
            complete_tasks=int(np.sum((of_task > 0) & (ended_of_task == of_task))),
            partial_tasks=int(np.sum((ended_of_task > 0) & (ended_of_task < of_task))),
            first_open=tuple(self._key(key) for key in open_keys[:MOST_NAMED]),
            open_rollouts=len(open_keys),
            unknown_rollouts=unknown,
            parts=parts,
            missing_parts=tuple(missing),
        )

    def _check_sizes(self, requested: int, row_count: int) -> None:
        """Raise InputDataError: the number of materialized rows contradicts the manifests."""
        table = self._scanned.inputs
        if table is None:
            return
        shard_sizes = np.bincount(numbers(table.shard), minlength=len(self._shards)).tolist()
        for shard, count in zip(self._shards, shard_sizes, strict=True):
            if shard.manifest and shard.part and count != shard.manifest.requested:
                raise _wrong_size(shard.paths.materialized_inputs, count, shard.manifest.requested)
        if row_count > requested:
            raise _wrong_size(self._shards[0].paths.materialized_inputs, row_count, requested)

    def _refuse(
        self, keys: IntArray, table: RowColumns, conflicts: Sequence[tuple[int, int]], what: str
    ) -> None:
        """Raise InputDataError: `conflicts` contains pairs of different rows with the same key."""
        if not conflicts:
            return
        described = [
            f"{self._key(keys[first])}: {self._where(table, first)} and {self._where(table, second)}"
            for first, second in conflicts[:MOST_NAMED]
        ]
        raise InputDataError(
            f"{len(conflicts)} rollouts are {what} twice, differently\n  "
            + "\n  ".join(_first_names(described, len(conflicts))),
            hint="the same rollouts were collected twice; leave out one of those shards",
            cause=KnownCause.DUPLICATES,
        )

    def _not_asked(self, table: RowColumns, keys: IntArray, stray: IntArray) -> InputDataError:
        described = [
            f"{self._key(keys[row])}: {self._where(table, row)}" for row in stray[:MOST_NAMED]
        ]
        return InputDataError(
            f"{len(stray)} rows are for rollouts that their own materialized inputs do not have\n  "
            + "\n  ".join(_first_names(described, len(stray))),
            hint="the shard's files belong to different runs; restore the original files",
        )

    def _where(self, table: RowColumns, row: int) -> str:
        row_place = table.place(row)
        number = self._sources.line_number(row_place.source, row_place.offset)
        return f"{self._sources.paths[row_place.source]} line {number}"

    def _key(self, key: int) -> RolloutKey:
        task, rollout = divmod(int(self._known[key]), len(self._rollouts))
        return RolloutKey(int(self._tasks[task]), int(self._rollouts[rollout]))

    def _task_codes(self, keys: IntArray) -> IntArray:
        codes: IntArray = self._known[keys] // max(len(self._rollouts), 1)
        return codes


def _distinct(
    keys: IntArray, table: RowColumns, read_row: Read
) -> tuple[IntArray, list[tuple[int, int]], int]:
    """Return one row per key in key order, the pairs of different rows with the same key, and the
    number of rows left out.
    """
    order = np.argsort(keys, kind="stable")
    starts = _starts(keys[order])
    first = np.zeros(len(order), dtype=bool)
    first[starts] = True
    first_rows = order[starts] if starts else order
    group = np.cumsum(first) - 1
    repeats = np.flatnonzero(~first)
    conflicts: dict[int, tuple[int, int]] = {}
    for at in repeats.tolist():
        earlier, second = int(first_rows[group[at]]), int(order[at])
        if int(keys[earlier]) not in conflicts and not _same(table, earlier, second, read_row):
            conflicts[int(keys[earlier])] = earlier, second
    return first_rows, list(conflicts.values()), len(repeats)


def _same(table: RowColumns, first: int, second: int, read_row: Read) -> bool:
    if table.length[first] != table.length[second]:
        return False
    return read_row(table.place(first)) == read_row(table.place(second))


def _starts(*columns: IntArray) -> list[int]:
    """Return the indices of rows that differ from the previous row in any column."""
    if not len(columns[0]):
        return []
    changed = np.zeros(len(columns[0]) - 1, dtype=bool)
    for column in columns:
        changed |= column[1:] != column[:-1]
    return [0, *(np.flatnonzero(changed) + 1).tolist()]


def _add_scored(accounting: Accounting, table: ScoredColumns, rows: IntArray) -> None:
    counts = np.bincount(numbers(table.outcome)[rows], minlength=len(OUTCOMES)).tolist()
    for code, count in enumerate(counts):
        if count:
            accounting.ended[OUTCOMES[code]] += count
    # In key order, so that the sum does not depend on how the run was cut.
    accounting.reward_sum = float(np.array(table.reward)[rows].sum())
    accounting.output_tokens = int(numbers(table.output_tokens)[rows].sum())
    accounting.empty_answers = int(numbers(table.empty)[rows].sum())
    broken = table.broken_tools
    for row in np.intersect1d(rows, np.array(list(broken), dtype=np.int64)).tolist():
        accounting.note_broken(broken[row])


def _wrong_size(path: Path, row_count: int, expected: int) -> InputDataError:
    return InputDataError(
        f"{path} holds {row_count} rollouts, but its manifest says {expected}",
        hint="the file is not as the collection wrote it; collect the shard again",
        cause=KnownCause.BROKEN_MANIFEST,
    )


def _first_names(some: list[str], count: int) -> list[str]:
    return [*some, f"and {count - len(some)} more"] if count > len(some) else some
