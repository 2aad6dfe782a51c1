"""Make a run of scored rollouts that have no materialized inputs, such as those of an older program.

The rows get indices where they have none: rollouts with equal prompts and agents are one task. The
fields on which all rollouts of every task agree are those of the tasks.
"""

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.datasets import RowProblems
from palestra.errors import InputDataError
from palestra.rollouts.file_kinds import kind_of
from palestra.rollouts.materialize import whole_or_absent
from palestra.rollouts.task_identity import row_digest, task_digest
from palestra.schema import (
    CREATE_PARAMS,
    FAILURE_CLASS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    Line,
    RunPaths,
    bare_name,
    finite_reward,
    short_repr,
    with_compressed,
)
from palestra.system import shown, unused

_RESPONSE: Final = "response"
_REWARD: Final = "reward"
_OF_ONE_ROLLOUT: Final = "_ng_"


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run that was made of rollouts."""

    output: Path
    tasks: int
    rollouts: int
    results: tuple[str, ...] = ()
    """The fields that are not in the tasks, because rollouts of one task differ in them."""


def is_scored_rollout(row: object) -> bool:
    """Whether a row is a rollout with a reward, and no task."""
    return isinstance(row, Mapping) and isinstance(row.get(_RESPONSE), Mapping) and _REWARD in row


def import_command(rollouts: Path) -> str:
    """Return the command that makes a run of a file of rollouts; empty when the file has none, or is
    that of a run.
    """
    paths = RunPaths(rollouts)
    companions = (paths.manifest, paths.materialized_inputs, paths.failures)
    if any(with_compressed(path) for path in companions) or kind_of(rollouts) != "rollouts":
        return ""
    stem = bare_name(rollouts).removesuffix(".jsonl")
    output = unused(rollouts.with_name(f"{stem}_run.jsonl"), lambda path: (path,))
    words = ("palestra", "dataset", "import", shown(rollouts), "--rollouts")
    return shlex.join((*words, "--output", shown(output)))


def import_advice(rollouts: Path) -> str:
    """Return the end of a hint about missing inputs of a run: the command that collected it makes them
    again, or its rollouts alone become a run. Empty when neither can be.
    """
    if RunPaths(rollouts).manifest.exists():
        return (
            "; the command that collected the run makes them again with --resume, without asking the "
            "model"
        )
    command = import_command(rollouts)
    return f"; `{command}` makes a run of the rollouts alone" if command else ""


def import_rollouts(
    sources: Sequence[Path], reader: Callable[[Path], Iterable[Line]], output: Path
) -> ImportedRun:
    """Write the rollouts of `sources`, with indices, to `output`, and the materialized inputs to the
    file of this run. `reader`: yields the rows of a file.

    Raises InputDataError that lists every row that is no scored rollout; nothing is written then. It
    is also raised when `output` or its inputs exist.
    """
    paths = RunPaths(output)
    for path in (output, paths.materialized_inputs):
        if path.exists():
            raise InputDataError(
                f"{shown(path)} exists", hint="choose another --output, or remove the file"
            )
    tasks = _tasks_of(sources, reader)
    with contextlib.ExitStack() as files:
        rollouts_file, _ = files.enter_context(whole_or_absent(output))
        inputs_file, _ = files.enter_context(whole_or_absent(paths.materialized_inputs))
        numbering = _Numbering()
        for _, line in _lines(sources, reader):
            row = {**line.row, **numbering.indices(line.row)}
            rollouts_file.write(orjson.dumps(row) + b"\n")
            inputs_file.write(orjson.dumps(tasks.input_of(row)) + b"\n")
    return ImportedRun(output, len(numbering.repeats), numbering.rollouts, tasks.differing())


@dataclass(slots=True)
class _Numbering:
    """Gives each row its indices: those that it has, or the next ones of its task."""

    repeats: dict[object, int] = field(default_factory=dict)
    """The task -> the number of its rollouts so far."""
    rollouts: int = 0
    _tasks: dict[bytes, int] = field(default_factory=dict)

    def indices(self, row: JsonDict) -> JsonDict:
        """Return the fields of a row's indices."""
        self.rollouts += 1
        has_indices = TASK_INDEX in row
        task = row[TASK_INDEX] if has_indices else self._task_of(row)
        rollout = self.repeats.get(task, 0)
        self.repeats[task] = rollout + 1
        return {
            TASK_INDEX: task,
            ROLLOUT_INDEX: row[ROLLOUT_INDEX] if has_indices else rollout,
        }

    def _task_of(self, row: JsonDict) -> int:
        return self._tasks.setdefault(task_digest(row), len(self._tasks))


@dataclass(slots=True)
class _TaskFields:
    """The fields of the tasks: those on which all rollouts of every task agree."""

    _values: dict[object, dict[str, bytes]] = field(default_factory=dict)
    """The task -> the name and digest of each field of its first rollout."""
    _differing: set[str] = field(default_factory=set)

    def add(self, task: object, row: JsonDict) -> None:
        """Compare a rollout with the first one of its task."""
        digests = {name: row_digest({name: value}) for name, value in _possible_fields(row).items()}
        first = self._values.setdefault(task, digests)
        names = first.keys() | digests.keys()
        self._differing |= {name for name in names if first.get(name) != digests.get(name)}

    def differing(self) -> tuple[str, ...]:
        """Return the other fields than those of the tasks."""
        return tuple(sorted(self._differing - {CREATE_PARAMS}))

    def input_of(self, row: JsonDict) -> JsonDict:
        """Return the materialized input of a rollout."""
        possible = _possible_fields(row)
        fields = {name: value for name, value in possible.items() if name not in self._differing}
        params = {CREATE_PARAMS: row[CREATE_PARAMS]}
        return {**fields, **params, TASK_INDEX: row[TASK_INDEX], ROLLOUT_INDEX: row[ROLLOUT_INDEX]}


def _possible_fields(row: JsonDict) -> JsonDict:
    """Return the fields of a rollout that may be those of its task."""
    results = {_RESPONSE, _REWARD}
    return {
        name: value
        for name, value in row.items()
        if name not in results and not name.startswith(_OF_ONE_ROLLOUT)
    }


def _tasks_of(sources: Sequence[Path], reader: Callable[[Path], Iterable[Line]]) -> _TaskFields:
    """Check every row, and return the fields of the tasks. Raises InputDataError."""
    problems, tasks, numbering = RowProblems(), _TaskFields(), _Numbering()
    keys: set[tuple[object, object]] = set()
    numbered: bool | None = None
    for source, line in _lines(sources, reader):
        problem = line.error or _problem_of(line.row)
        if not problem:
            numbered = TASK_INDEX in line.row if numbered is None else numbered
            if numbered != (TASK_INDEX in line.row):
                problem = f"some rows have {TASK_INDEX}, and others have none"
        if problem:
            problems.add(source, line.number, problem)
            continue
        row = {**line.row, **numbering.indices(line.row)}
        key = (row[TASK_INDEX], row[ROLLOUT_INDEX])
        if key in keys:
            problems.add(source, line.number, f"repeats rollout {key[0]}:{key[1]}")
        keys.add(key)
        tasks.add(row[TASK_INDEX], row)
    problems.raise_if_any(hint="nothing was written; fix these rows, or remove them")
    if not keys:
        names = " and ".join(map(shown, sources))
        raise InputDataError(f"{names} {'has' if len(sources) == 1 else 'have'} no rows")
    return tasks


def _problem_of(row: Any) -> str:
    """Return why a row is no scored rollout; empty when it is one."""
    if not isinstance(row, Mapping):
        return "not a JSON object"
    if row.get(FAILURE_CLASS):
        return "is a failure, and no scored rollout"
    for name in (CREATE_PARAMS, _RESPONSE):
        if not isinstance(row.get(name), Mapping):
            return f"/{name} is missing, or no object"
    if finite_reward(row.get(_REWARD)) is None:
        return f"/{_REWARD} is missing, or no finite number"
    if (TASK_INDEX in row) != (ROLLOUT_INDEX in row):
        return f"has {TASK_INDEX} or {ROLLOUT_INDEX}, but not both"
    return _index_problem_of(row)


def _index_problem_of(row: JsonObject) -> str:
    """Return why an index of a row is none; empty when the row has good ones, or has none."""
    for name in (TASK_INDEX, ROLLOUT_INDEX):
        if name in row and (type(row[name]) is not int or row[name] < 0):
            return f"/{name} is {short_repr(row[name])}, no whole number from 0"
    return ""


def _lines(
    sources: Sequence[Path], reader: Callable[[Path], Iterable[Line]]
) -> Iterator[tuple[Path, Line]]:
    for source in sources:
        for line in reader(source):
            yield source, line
