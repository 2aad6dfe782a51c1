"""Task rows for stored rollouts: they supply the fields that a verifier needs and a rollout may
lack.

A task row is found by (task, rollout), else by task. When either side has no indices, it is found
by the prompt, which must belong to a single task. The rows stay on disk; memory holds one digest
and one offset per row.
"""

import hashlib
import shutil
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self, final

import orjson

from palestra.datasets import RowProblems, missing_file, missing_params
from palestra.errors import InputDataError
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    is_compressed,
    open_packed,
    plain_input,
    repeated_key,
)

IDENTITY = (TASK_INDEX, ROLLOUT_INDEX, AGENT_REF)
_SEVERAL = -1
"""A special offset: several different rows have this prompt."""


class TaskRows:
    """An index of files of materialized inputs or tasks, as of one. Use it as a context manager.

    `by_prompt`: ignore the indices, because the files belong to no run or to another run. `sources`:
    the user's files, to be named in messages, where the rows of `paths` were derived from these.
    Raises InputDataError: a file cannot be read or contains invalid rows.
    """

    def __init__(self, *paths: Path, by_prompt: bool = False, sources: Sequence[Path] = ()) -> None:
        self.paths = paths
        self._sources = sources or paths
        self._by_prompt = by_prompt
        self._open = ExitStack()
        self._files: list[IO[bytes]] = []
        self._starts: list[int] = []
        """The offset at which each file begins in the index."""
        self._offsets: dict[int, int] = {}
        self._fields_of_prompt: dict[int, int] = {}
        self._indexed = False
        self.digest = "+".join(map(digest_of, paths))

    def __enter__(self) -> Self:
        problems = RowProblems()
        offset = count = 0
        for path in self.paths:
            file = self._open.enter_context(_plain_file(path))
            self._files.append(file)
            self._starts.append(offset)
            for number, raw in enumerate(file, start=1):
                was_added = self._take(raw, offset)
                if was_added:
                    problems.add(path, number, was_added)
                count += bool(raw.strip())
                offset += len(raw)
        problems.raise_if_any()
        if not count:
            raise InputDataError(f"{self._names()} has no rows")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _names(self) -> str:
        return " and ".join(path.name for path in self._sources)

    def _take(self, raw: bytes, offset: int) -> str:
        """Add the row of a line to the index. Return its problem, or an empty string."""
        if not raw.strip():
            return ""
        try:
            row = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            torn = not raw.endswith(b"\n")
            return "" if torn else f"not JSON ({error})"
        if key := repeated_key(raw, row):
            return f"the key {key} is there twice"
        if not isinstance(row, dict):
            return "not a JSON object"
        if not isinstance(row.get(CREATE_PARAMS), Mapping):
            return missing_params(row)
        self._add(row, offset)
        return ""

    def _add(self, row: JsonDict, offset: int) -> None:
        is_known = False
        for key in () if self._by_prompt else _indices(row):
            self._indexed = True
            is_known = key in self._offsets  # in the end: its task
            self._offsets.setdefault(key, offset)
        if is_known:
            return  # another rollout of a task has the same prompt
        prompt = _prompt(row)
        fields = _number(sorted((k, v) for k, v in row.items() if k not in _NOT_OF_THE_TASK))
        if self._fields_of_prompt.setdefault(prompt, fields) != fields:
            self._offsets[prompt] = _SEVERAL
        self._offsets.setdefault(prompt, offset)

    def row_of(self, rollout: JsonObject) -> JsonDict | str:
        """Return the task row of a stored rollout, or the reason why there is none."""
        if self._indexed and TASK_INDEX in rollout:
            for key in _indices(rollout):
                if key in self._offsets:
                    return self._read_row(self._offsets[key])
            return f"{self._names()} has no row of its task"
        offset = self._offset_by_prompt(rollout)
        if offset is None:
            return f"{self._names()} has no row with its prompt"
        if offset == _SEVERAL:
            return f"{self._names()} has rows that differ with its prompt"
        return self._read_row(offset)

    def corrected(self, inputs: JsonDict) -> JsonDict:
        """Return a rollout's materialized inputs with the fields that its task has here."""
        row = self.row_of(inputs)
        if not isinstance(row, dict):
            return inputs
        return {**inputs, **{k: v for k, v in row.items() if k not in _NOT_OF_THE_TASK}}

    def row_of_run(self, rollout: JsonObject) -> JsonDict | None:
        """Return the row with the rollout's indices, if the file holds the inputs of the same run;
        else None.
        """
        for key in () if self._by_prompt else _indices(rollout):
            if key in self._offsets:
                return self._read_row(self._offsets[key])
        return None

    def _offset_by_prompt(self, rollout: JsonObject) -> int | None:
        exact = self._offsets.get(_prompt(rollout))
        # Instructions are often given to a whole run, beside its tasks.
        return self._offsets.get(_prompt(rollout, instructed=False)) if exact is None else exact

    def _read_row(self, offset: int) -> JsonDict:
        at = bisect_right(self._starts, offset) - 1
        file = self._files[at]
        file.seek(offset - self._starts[at])
        row: JsonDict = orjson.loads(file.readline())
        return row


@final
class FoundTaskRows:
    """Task files that the user did not name and that were found in their usual places.

    `own_inputs`: the path of the run's own inputs, which may no longer exist. The first file that
    contains the rollout's task adds the fields that the rollout lacks; existing fields are kept.
    Use it as a context manager. Files without task rows are ignored.
    """

    def __init__(self, own_inputs: Path, others: Iterable[Path]) -> None:
        self._own = own_inputs
        self._others = tuple(others)
        self._files: list[TaskRows] = []
        self._open = ExitStack()
        self._used: dict[Path, None] = {}

    def __enter__(self) -> Self:
        for path in (self._own, *self._others):
            if not path.is_file():
                continue
            # Indices mean the same in the inputs of the same run only.
            with suppress(InputDataError):
                file = self._open.push(TaskRows(path, by_prompt=path != self._own))
                self._files.append(file.__enter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def digest(self) -> str | None:
        """The digests of all files, joined with `+`; None without files."""
        return "+".join(file.digest for file in self._files) or None

    def row_of(self, rollout: JsonObject) -> JsonDict:
        """Return the task fields that a rollout lacks."""
        for file in self._files:
            row = file.row_of(rollout)
            if isinstance(row, dict):
                lacking = {name: value for name, value in row.items() if name not in rollout}
                if lacking:
                    self._used |= dict.fromkeys(file.paths)
                return lacking
        return {}

    def row_of_run(self, rollout: JsonObject) -> JsonDict | None:
        """Return the row of the run's own inputs that has the rollout's indices; None when there is
        none.
        """
        for file in self._files:
            row = file.row_of_run(rollout)
            if row is not None:
                self._used |= dict.fromkeys(file.paths)
                return row
        return None

    def changed(self, rows: Iterable[JsonObject]) -> tuple[int, tuple[str, ...]]:
        """Return how many of the task rows have another field than the run's own inputs with their
        prompt, and the names of these fields.
        """
        count, names = 0, dict[str, None]()
        own_file = next((file for file in self._files if file.paths == (self._own,)), None)
        if own_file is None:
            return count, ()
        for row in rows:
            inputs = own_file.row_of(row)
            if not isinstance(inputs, dict):
                continue
            fields = orjson.loads(orjson.dumps(row))
            differing = [
                name
                for name, value in fields.items()
                if name not in _NOT_OF_THE_TASK and name in inputs and inputs[name] != value
            ]
            count += bool(differing)
            names |= dict.fromkeys(differing)
        return count, tuple(names)

    def used(self) -> tuple[Path, ...]:
        """Return the files that have supplied fields so far."""
        return tuple(self._used)


_NOT_OF_THE_TASK = frozenset({*IDENTITY, CREATE_PARAMS})


def _indices(row: JsonObject) -> Iterator[int]:
    """Yield the index keys of a row: (task, rollout) first, then task."""
    if TASK_INDEX in row:
        if ROLLOUT_INDEX in row:
            yield _number(["rollout", row[TASK_INDEX], row[ROLLOUT_INDEX]])
        yield _number(["task", row[TASK_INDEX]])


def _prompt(row: JsonObject, *, instructed: bool = True) -> int:
    params = row[CREATE_PARAMS]
    instructions = params.get("instructions") if instructed else None
    return _number(["prompt", instructions, plain_input(params.get("input"))])


def _number(value: Any) -> int:
    """Return a 64-bit digest of `value`."""
    encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest())


@contextmanager
def _plain_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file whose rows can be read again by their offset: of a compressed one, a copy."""
    if not is_compressed(path):
        with path.open("rb") as plain:
            yield plain
        return
    with TemporaryFile() as copy:
        try:
            with open_packed(path) as rows:
                shutil.copyfileobj(rows, copy)
        except (OSError, EOFError) as error:
            raise InputDataError(f"{path} cannot be read: {error}") from error
        copy.seek(0)
        yield copy


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises InputDataError: it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise missing_file(path) from None
    except OSError as error:
        raise InputDataError(f"{path}: {error.strerror}") from error
