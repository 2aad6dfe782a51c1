"""The progress of a shard: count its rows by key, and write or check its done file.

A shard is done only if expected = scored + failed for good. An existing output file proves nothing,
so the rows are counted.
"""

from __future__ import annotations

import json
import math
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
    requested = {_key(row) for row in _rows(files.materialized_inputs)}
    if not requested and not files.materialized_inputs.exists():
        raise NotDone(f"{files.materialized_inputs.name} is missing")
    rewards = {_key(row): row.get(REWARD) for row in _rows(files.output)}
    scored = rewards.keys()
    # Of several attempts the last decides: after a terminal one more may have been allowed.
    terminal = {_key(row): bool(row.get(TERMINAL)) for row in _rows(files.failures)}
    failed = {key for key, given_up in terminal.items() if given_up} - scored
    strange = (scored | failed) - requested
    if strange:
        raise NotDone(
            f"{files.name} has {len(strange)} rows that the run did not request, such as "
            f"{min(strange)} (task, rollout)"
        )
    return ShardCounts(len(requested), len(scored), len(failed), _mean(rewards.values()))


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


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.endswith(b"\n") and not line.isspace():
                yield json.loads(line)


def _key(row: Mapping[str, Any]) -> tuple[int, int]:
    return row[TASK], row[ROLLOUT]
