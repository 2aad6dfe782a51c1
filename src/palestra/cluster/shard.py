"""The progress of a shard: count its rows by key, and write or check its done file.

A shard is done only if expected = scored + failed for good. An existing output file proves nothing,
so the rows are counted.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.cluster.layout import RunFiles, ShardFiles
from palestra.cluster.records import read_object, write_object
from palestra.system import set_aside

TASK, ROLLOUT, TERMINAL = "_ng_task_index", "_ng_rollout_index", "_ng_failure_terminal"
REWARD = "reward"


class NotDone(Exception):
    """Rows are missing, or there are rows that were not requested."""


@dataclass(frozen=True)
class ShardCounts:
    """The numbers of a shard's rollouts: expected, scored, failed for good, left."""

    expected: int
    scored: int
    failed: int
    """The number of rollouts that failed for good: no attempt succeeded and no further one follows.
    """
    mean_reward: float | None = None
    """The mean over the scored rollouts. None: there are none, or a row has no finite reward."""

    @property
    def left(self) -> int:
        return self.expected - self.scored - self.failed

    def said(self) -> str:
        """Return the counts as a text for messages."""
        left_text = f" + left {self.left}" if self.left else ""
        return f"expected {self.expected} = scored {self.scored} + failed {self.failed}{left_text}"


def count(files: ShardFiles) -> ShardCounts:
    """Count the rows of a shard by their keys.

    Raises NotDone: the materialized rows are missing, or there are rows that were not requested.
    """
    return ShardCounter().count(files)


class ShardCounter:
    """Counts the rows of shards. Counting a shard again reads only what was appended meanwhile."""

    def __init__(self) -> None:
        self._rows: dict[ShardFiles, _ShardRows] = {}

    def count(self, files: ShardFiles) -> ShardCounts:
        """Do the same as the function `count`."""
        rows = self._rows.get(files)
        if rows is None or rows.are_replaced():
            rows = self._rows[files] = _ShardRows(files)
        return rows.count()


class _ShardRows:
    """What is known of the rows of one shard so far."""

    def __init__(self, files: ShardFiles) -> None:
        self._files = files
        self._inputs = _AppendedRows(files.materialized_inputs)
        self._output = _AppendedRows(files.output)
        self._failures = _AppendedRows(files.failures)
        self._requested: set[tuple[int, int]] = set()
        self._rewards: dict[tuple[int, int], object] = {}
        self._terminal: dict[tuple[int, int], bool] = {}

    def are_replaced(self) -> bool:
        """Whether a file is another one now, so that all must be read again."""
        return any(rows.is_replaced() for rows in (self._inputs, self._output, self._failures))

    def count(self) -> ShardCounts:
        files = self._files
        self._requested.update(_key(row) for row in self._inputs.read())
        if not self._requested and not files.materialized_inputs.exists():
            raise NotDone(f"{files.materialized_inputs.name} is missing")
        self._rewards.update((_key(row), row.get(REWARD)) for row in self._output.read())
        # Of several attempts the last decides: after a terminal one more may have been allowed.
        self._terminal.update((_key(row), bool(row.get(TERMINAL))) for row in self._failures.read())
        scored = self._rewards.keys()
        failed = {key for key, given_up in self._terminal.items() if given_up} - scored
        strange = (scored | failed) - self._requested
        if strange:
            raise NotDone(
                f"{files.name} has {len(strange)} rows that the run did not request, such as "
                f"{min(strange)} (task, rollout)"
            )
        mean = _mean(self._rewards.values())
        return ShardCounts(len(self._requested), len(scored), len(failed), mean)


class _AppendedRows:
    """The complete rows of a file. It may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._inode: int | None = None

    def is_replaced(self) -> bool:
        """Whether the file that was read is gone, another one or shorter now."""
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return self._inode is not None
        return self._inode not in {None, state.st_ino} or state.st_size < self._offset

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the rows that were appended since the last call."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            self._inode = os.fstat(file.fileno()).st_ino
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                row = None if line.isspace() else json.loads(line)
                self._offset += len(line)
                if row is not None:
                    yield row


def _mean(rewards: Collection[object]) -> float | None:
    numbers = [float(r) for r in rewards if isinstance(r, (int, float)) and math.isfinite(r)]
    return math.fsum(numbers) / len(numbers) if numbers and len(numbers) == len(rewards) else None


def is_done(files: ShardFiles) -> bool:
    """Whether the done file exists and its numbers add up."""
    end_record = read_object(files.done)
    if end_record is None:
        return False
    expected, scored, failed = (
        end_record.get(key) for key in ("expected", "scored", "failed_terminal")
    )
    if not (isinstance(expected, int) and isinstance(scored, int) and isinstance(failed, int)):
        return False
    return expected == scored + failed


def write_done(files: ShardFiles, counts: ShardCounts, further: Mapping[str, object]) -> None:
    """Write the done file. Raises NotDone: a rollout has not ended."""
    if counts.left:
        raise NotDone(f"{files.name}: {counts.said()}")
    manifest = read_object(files.manifest) or {}
    write_object(
        files.done,
        {
            "expected": counts.expected,
            "scored": counts.scored,
            "failed_terminal": counts.failed,
            "mean_reward": counts.mean_reward,
            "digest": manifest.get("digest"),
            **further,
        },
    )


def set_shard_aside(run: RunFiles, name: str, suffix: str) -> list[str]:
    """Rename a shard's files, so that it is collected again. Return the old names of the files.

    The done file goes first, because it must not exist without its rows. Metrics are renamed too:
    without their run, they would look like the remains of a run that cannot be continued.
    """
    files = run.shard(name)
    own_files = (
        files.done,
        files.manifest,
        files.failures,
        files.output,
        files.materialized_inputs,
    )
    return [path.name for path in set_aside((*own_files, *files.derived), suffix)]


def _key(row: Mapping[str, Any]) -> tuple[int, int]:
    return row[TASK], row[ROLLOUT]
