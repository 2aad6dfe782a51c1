"""Materialization: from input files to one row per requested rollout.

The result is written beside a temporary name and renamed, so a run's materialized inputs are
whole or absent. A shard reads all of the input, so that its indices are those of the whole run,
and writes the rows of its own share.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import orjson

from palestra.errors import InputDataError
from palestra.rollouts.expansion import Expansion, Place
from palestra.rollouts.settings import CollectSettings
from palestra.schema import MAX_ROW_BYTES, ROLLOUT_INDEX, TASK_INDEX


@dataclass(frozen=True, slots=True)
class Materialized:
    """What was written: counts, and the digest of the input rows that were used.

    `tasks` and `rollouts` are those of this file, a shard's or the whole run's.
    """

    path: Path
    tasks: int
    rollouts: int
    input_digest: str
    agents: tuple[str, ...]
    run_tasks: int
    """Tasks of the whole run."""
    run_rollouts: int
    """Rollouts of the whole run."""
    places: Mapping[int, Place] = field(default_factory=dict)
    """Task index -> where its first row stands, for messages."""
    repeats: Mapping[int, int] = field(default_factory=dict)
    """Task index -> how many rollouts of it are in this file."""
    made_folders: tuple[Path, ...] = ()
    """Folders that did not exist before, innermost first."""
    notices: tuple[str, ...] = ()
    """What may be a mistake and runs all the same."""


def materialize(
    settings: CollectSettings, output: Path, *, agents: Collection[str]
) -> Materialized:
    """Write the materialized inputs of `settings` to `output`.

    `agents`: the agent instances that exist. Raises InputDataError, with every offending line,
    before `output` exists.
    """
    known = frozenset(agents)
    mine: frozenset[int] | None = None
    with whole_or_absent(output) as (file, made_folders):
        if settings.shard is not None:
            mine = _share(settings, known)
        expansion = Expansion(settings, known)
        rollouts = 0
        repeats: dict[int, int] = {}
        for row in expansion.rows(mine):
            file.write(_line_of(row))
            repeats[row[TASK_INDEX]] = row[ROLLOUT_INDEX] + 1
            rollouts += 1
        expansion.finish()
    return Materialized(
        path=output,
        made_folders=made_folders,
        tasks=expansion.tasks if mine is None else len(mine),
        rollouts=rollouts,
        run_tasks=expansion.tasks,
        run_rollouts=expansion.rollouts,
        input_digest=expansion.digest.hexdigest(),
        agents=tuple(sorted(expansion.agents_used)),
        places=expansion.places,
        repeats=repeats,
        notices=expansion.notices,
    )


def _line_of(row: Mapping[str, Any]) -> bytes:
    """A materialized row. Raises InputDataError when it grew beyond what is read again."""
    line = orjson.dumps(row) + b"\n"
    if len(line) > MAX_ROW_BYTES:
        raise InputDataError(
            f"task {row[TASK_INDEX]} has a row of {len(line):,} bytes once its prompt and settings "
            f"are in it, and a row may have {MAX_ROW_BYTES:,}"
        )
    return line


def _share(settings: CollectSettings, agents: frozenset[str]) -> frozenset[int]:
    """The tasks of this shard: known only when every task of the run is."""
    assert settings.shard is not None  # noqa: S101  # for the type checker: the caller asked
    expansion = Expansion(settings, agents)
    for _ in expansion.rows(frozenset()):
        pass
    expansion.finish()
    tasks = sorted(expansion.places)
    return frozenset(tasks[settings.shard.share(len(tasks))])


@contextlib.contextmanager
def whole_or_absent(output: Path) -> Iterator[tuple[IO[bytes], tuple[Path, ...]]]:
    """A file that is `output` once the body succeeds, and the folders that were made for it.

    Neither is left behind when the body does not succeed.
    """
    beside = output.with_name(output.name + ".tmp")
    made: tuple[Path, ...] = ()
    try:
        made = tuple(folder for folder in output.parents if not folder.exists())
        output.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            yield file, made
            file.flush()
            os.fsync(file.fileno())
        beside.replace(output)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        remove_empty(made)
        if isinstance(error, OSError):
            raise _not_writable(output, error) from error
        raise


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove `folders`, innermost first, as far as nothing is in them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _not_writable(output: Path, error: OSError) -> InputDataError:
    at_file = isinstance(error, FileExistsError | NotADirectoryError)
    reason = "not a folder" if at_file else error.strerror
    return InputDataError(
        f"cannot write to {output.parent}: {reason}",
        hint="choose another output, or mend its permissions",
    )
