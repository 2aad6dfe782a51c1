"""Materialization: expand the input files to one row per requested rollout.

The result is written under a temporary name and then renamed, so a run's materialized inputs are
complete or absent. A shard reads the whole input, so that its indices match the whole run, and
writes only the rows of its share.
"""

import contextlib
import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import orjson

from palestra.datasets import RowProblems
from palestra.errors import InputDataError
from palestra.rollouts.expansion import Expansion, Place, lines_of_all
from palestra.schema import AGENT_REF, MAX_ROW_BYTES, ROLLOUT_INDEX, TASK_INDEX, JsonObject, key_of
from palestra.settings import CollectSettings, GivenRows
from palestra.system import remove_empty, replacing


@dataclass(frozen=True, slots=True)
class Materialized:
    """The result of materializing or counting rows: their numbers, and the digest of the input
    rows.

    `tasks` and `rollouts`: the counts of these rows, which belong to a shard or to the whole run.
    """

    tasks: int
    rollouts: int
    input_digest: str
    rows_of_agents: Mapping[str, int]
    """The number of input rows of each agent that the rows go to."""
    run_tasks: int
    """The number of tasks in the whole run."""
    run_rollouts: int
    """The number of rollouts in the whole run."""
    places: Mapping[int, Place] = field(default_factory=dict)
    """Task index -> the position of the task's first row, for messages."""
    repeats: Mapping[int, int] = field(default_factory=dict)
    """Task index -> the number of its rollouts."""
    made_folders: tuple[Path, ...] = ()
    """The folders that were created, innermost first."""

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that the rows go to, sorted."""
        return tuple(sorted(self.rows_of_agents))


def materialize(
    settings: CollectSettings, output: Path, *, agents: Collection[str]
) -> Materialized:
    """Write the materialized inputs of `settings` to `output`.

    `agents`: the existing agent instances. Raises InputDataError that lists every bad line, before
    `output` is created.
    """
    with whole_or_absent(output) as (file, made_folders):
        counted = _expanded(settings, file.write, frozenset(agents))
    return replace(counted, made_folders=made_folders)


def count(settings: CollectSettings, *, agents: Collection[str]) -> Materialized:
    """Return the result of `materialize` without writing. Raises InputDataError that lists every
    bad line.
    """
    return _expanded(settings, len, frozenset(agents))


def _expanded(
    settings: CollectSettings, write: Callable[[bytes], object], agents: frozenset[str]
) -> Materialized:
    """Pass each line of the materialized inputs to `write`, and return the counts."""
    if settings.given is not None:
        return _taken_over(settings, settings.given, write, agents)
    mine = None if settings.shard is None else _share(settings, agents)
    expansion = Expansion(settings, agents)
    rollouts = 0
    repeats: dict[int, int] = {}
    for row in expansion.rows(mine):
        write(_line_of(row))
        repeats[row[TASK_INDEX]] = row[ROLLOUT_INDEX] + 1
        rollouts += 1
    expansion.finish()
    return Materialized(
        tasks=expansion.tasks if mine is None else len(mine),
        rollouts=rollouts,
        run_tasks=expansion.tasks,
        run_rollouts=expansion.rollouts,
        input_digest=expansion.digest.hexdigest(),
        rows_of_agents=expansion.rows_of_agents,
        places=expansion.places,
        repeats=repeats,
    )


def _taken_over(
    settings: CollectSettings,
    inputs: GivenRows,
    write: Callable[[bytes], object],
    agents: frozenset[str],
) -> Materialized:
    """Copy rows that are already materialized; check only their indices and agent."""
    problems = RowProblems()
    first_places: dict[int, Place] = {}
    repeats: dict[int, int] = {}
    used: Counter[str] = Counter()
    rollouts = 0
    for source, line in lines_of_all(settings.inputs):
        row_place = Place(source.path, line.number)
        problem = line.error or _no_identity(line.row, agents)
        if problem:
            problems.add(*row_place, problem)
            continue
        key = key_of(line.row)
        write(_line_of(line.row))
        first_places.setdefault(key.task, row_place)
        repeats[key.task] = max(key.rollout + 1, repeats.get(key.task, 0))
        used[line.row[AGENT_REF]["name"]] += 1
        rollouts += 1
    problems.raise_if_any()
    return Materialized(
        tasks=len(first_places),
        rollouts=rollouts,
        run_tasks=inputs.run_tasks,
        run_rollouts=inputs.run_rollouts,
        input_digest=inputs.input_digest,
        rows_of_agents=used,
        places=first_places,
        repeats=repeats,
    )


def _no_identity(row: Any, agents: frozenset[str]) -> str:
    """Return why a row is not a valid materialized row; empty when it is valid."""
    if not isinstance(row, dict):
        return "not a JSON object"
    for name in (TASK_INDEX, ROLLOUT_INDEX):
        index = row.get(name)
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            return f"/{name} is {index!r}, not a whole number from 0"
    ref = row.get(AGENT_REF)
    agent = ref.get("name") if isinstance(ref, Mapping) else None
    if agent not in agents:
        return f"agent {agent!r} does not exist (agents: {', '.join(sorted(agents)) or 'none'})"
    return ""


def _line_of(row: JsonObject) -> bytes:
    """Return the line of a materialized row. Raises InputDataError: it is longer than the maximum
    that can be read back.
    """
    line = orjson.dumps(row) + b"\n"
    if len(line) > MAX_ROW_BYTES:
        raise InputDataError(
            f"task {row[TASK_INDEX]} has a row of {len(line):,} bytes with its prompt and "
            f"settings; the limit is {MAX_ROW_BYTES:,}"
        )
    return line


def _share(settings: CollectSettings, agents: frozenset[str]) -> frozenset[int]:
    """Return the tasks of this shard. This needs a pass over the whole input, because all tasks
    must be known first.
    """
    assert settings.shard is not None  # noqa: S101  # for the type checker: the caller asked
    expansion = Expansion(settings, agents)
    for _ in expansion.rows(frozenset()):
        pass
    expansion.finish()
    tasks = sorted(expansion.places)
    return frozenset(tasks[settings.shard.share(len(tasks))])


@contextlib.contextmanager
def whole_or_absent(output: Path) -> Iterator[tuple[IO[bytes], tuple[Path, ...]]]:
    """Yield a temporary file, which becomes `output` when the body succeeds, and the folders
    created for it.

    When the body fails, the file and the folders are removed.
    """
    new_folders: tuple[Path, ...] = ()
    try:
        new_folders = tuple(folder for folder in output.parents if not folder.exists())
        output.parent.mkdir(parents=True, exist_ok=True)
        with replacing(output) as file:
            yield file, new_folders
    except BaseException as error:
        remove_empty(new_folders)
        if isinstance(error, OSError):
            raise _not_writable(output, error) from error
        raise


def _not_writable(output: Path, error: OSError) -> InputDataError:
    at_file = isinstance(error, FileExistsError | NotADirectoryError)
    reason = "not a folder" if at_file else error.strerror
    is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    remedy = "free space there" if is_full else "correct the permissions of the folder"
    return InputDataError(
        f"cannot write to {output.parent}: {reason}", hint=f"choose another output, or {remedy}"
    )
