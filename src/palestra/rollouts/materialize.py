"""Materialization: from an input file to one row per requested rollout.

Every row is checked before anything runs, and all that is wrong is said at once. The result is
written beside a temporary name and renamed, so a run's materialized inputs are whole or absent.
Rows are streamed: memory grows with the number of distinct tasks, by a digest each.
"""

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson
from pydantic import ValidationError

from palestra.errors import InputDataError
from palestra.rollouts.problems import RowProblems
from palestra.rollouts.prompt import PromptTemplate, load_prompt
from palestra.rollouts.settings import CollectSettings
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    Line,
    ResponseCreateParams,
    read_jsonl,
    rejected_fields,
)

AGENT_TYPE = "responses_api_agents"


@dataclass(frozen=True, slots=True)
class Materialized:
    """What was written: counts, and the digest of the input rows that were used."""

    path: Path
    tasks: int
    rollouts: int
    input_digest: str
    agents: tuple[str, ...]
    made_folders: tuple[Path, ...] = ()
    """Folders that did not exist before, innermost first."""


def materialize(
    settings: CollectSettings, output: Path, *, agents: Collection[str]
) -> Materialized:
    """Write the materialized inputs of `settings` to `output`.

    `agents`: the agent instances that exist. Raises InputDataError, with every offending line,
    before `output` exists.
    """
    expansion = _Expansion(settings, frozenset(agents))
    with _whole_or_absent(output) as (file, made_folders):
        for row in expansion.rows():
            file.write(orjson.dumps(row))
            file.write(b"\n")
        expansion.finish()
    return Materialized(
        path=output,
        made_folders=made_folders,
        tasks=expansion.tasks,
        rollouts=expansion.rollouts,
        input_digest=expansion.digest.hexdigest(),
        agents=tuple(sorted(expansion.agents_used)),
    )


@contextlib.contextmanager
def _whole_or_absent(output: Path) -> Iterator[tuple[IO[bytes], tuple[Path, ...]]]:
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


class _Expansion:
    """One pass over the input; collects problems instead of stopping at the first."""

    def __init__(self, settings: CollectSettings, agents: frozenset[str]) -> None:
        self._settings = settings
        self._known_agents = agents
        self._template = load_prompt(settings.prompt_config) if settings.prompt_config else None
        self._problems = RowProblems(settings.input_jsonl_fpath)
        self._task_of: dict[bytes, int] = {}
        self._repeats_of: dict[int, int] = {}
        self._next_task = 0
        self._first_with_index = 0
        self._first_without_index = 0
        self.digest = hashlib.sha256()
        self.agents_used: set[str] = set()
        self.rollouts = 0
        self.lines = 0

    @property
    def tasks(self) -> int:
        """Distinct tasks so far."""
        return len(self._repeats_of)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Materialized rows; a bad row yields nothing and is remembered."""
        for line in self._input():
            self.lines += 1
            row = self._checked(line)
            if row is not None:
                yield from self._repeat(row)

    def finish(self) -> None:
        """Raise for every problem found, and for a file without rows."""
        if self._first_with_index and self._first_without_index:
            self._problems.add(
                self._first_without_index,
                f"no {TASK_INDEX}, but line {self._first_with_index} has one: all rows or none",
            )
        self._problems.raise_if_any()
        if self.lines == 0 and self._settings.limit != 0:
            raise InputDataError(
                f"{self._settings.input_jsonl_fpath} has no rows",
                hint="one task a line, as JSON with responses_create_params",
            )

    def _input(self) -> Iterator[Line]:
        limit = self._settings.limit
        path = self._settings.input_jsonl_fpath
        if limit == 0:
            return
        try:
            for count, line in enumerate(read_jsonl(path), start=1):
                yield line
                if limit is not None and count >= limit:
                    return
        except FileNotFoundError:
            raise InputDataError(
                f"input file {path} does not exist",
                hint="relative paths are looked up from the working directory, then in the "
                "installed package",
            ) from None
        except OSError as error:
            raise InputDataError(f"input file {path}: {error.strerror}") from error

    def _checked(self, line: Line) -> dict[str, Any] | None:
        if line.error:
            self._problems.add(line.number, f"not JSON ({line.error})")
            return None
        if not isinstance(line.row, dict):
            self._problems.add(line.number, "not a JSON object")
            return None
        row = dict(line.row)
        self.digest.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS))
        found = [
            *self._prompt(row),
            *self._params(row),
            *self._agent(row),
            *self._index(row, line.number),
        ]
        for problem in found:
            self._problems.add(line.number, problem)
        return None if found else row

    def _prompt(self, row: dict[str, Any]) -> Iterator[str]:
        template: PromptTemplate | None = self._template
        if template is None:
            return
        params = row.get(CREATE_PARAMS) or {}
        if not isinstance(params, Mapping):
            return  # `_params` says so
        if params.get("input"):
            yield f"/{CREATE_PARAMS}/input is there already, and prompt_config would replace it"
        elif missing := template.missing(row):
            yield f"prompt_config needs the fields {', '.join(missing)}"
        else:
            try:
                row[CREATE_PARAMS] = {**params, "input": template.fill(row)}
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                yield f"prompt_config cannot be filled: {type(error).__name__}: {error}"

    def _params(self, row: dict[str, Any]) -> Iterator[str]:
        params = row.get(CREATE_PARAMS)
        if params is None:
            yield f"no `{CREATE_PARAMS}`"
            return
        if not isinstance(params, Mapping):
            yield f"/{CREATE_PARAMS} is not an object"
            return
        merged = {**params, **self._settings.responses_create_params}
        try:
            ResponseCreateParams.model_validate(merged)
        except ValidationError as error:
            # Without the value: rows that are bad in the same way are said in one line.
            for field in rejected_fields(merged, error):
                yield f"/{CREATE_PARAMS}{field.pointer}: {field.expected}"
        else:
            if self._settings.num_repeats_add_seed and not _takes_seed(merged):
                yield f"/{CREATE_PARAMS}/metadata/extra_body is not a JSON object"
        row[CREATE_PARAMS] = merged

    def _agent(self, row: dict[str, Any]) -> Iterator[str]:
        ref = row.get(AGENT_REF)
        name = ref.get("name") if isinstance(ref, Mapping) else None
        if name is not None and not isinstance(name, str):
            yield f"/{AGENT_REF}/name is not a text"
            return
        name = name or self._settings.agent_name
        if not name:
            yield "no agent_ref, and no agent_name was given"
            return
        if name not in self._known_agents:
            known = ", ".join(sorted(self._known_agents)) or "none"
            yield f"agent {name!r} does not exist (agents: {known})"
        self.agents_used.add(name)
        row[AGENT_REF] = {"type": AGENT_TYPE, "name": name}

    def _index(self, row: Mapping[str, Any], number: int) -> Iterator[str]:
        given = row.get(TASK_INDEX)
        if given is None:
            self._first_without_index = self._first_without_index or number
        elif not isinstance(given, int) or isinstance(given, bool):
            yield f"/{TASK_INDEX} is {given!r}, not a whole number"
        else:
            self._first_with_index = self._first_with_index or number

    def _repeat(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        task = self._task_index(row)
        for _ in range(self._settings.num_repeats):
            rollout = self._repeats_of.get(task, 0)
            self._repeats_of[task] = rollout + 1
            self.rollouts += 1
            made = {**row, TASK_INDEX: task, ROLLOUT_INDEX: rollout}
            if self._settings.num_repeats_add_seed:
                made[CREATE_PARAMS] = with_seed(row[CREATE_PARAMS], rollout)
            yield made

    def _task_index(self, row: dict[str, Any]) -> int:
        given: int | None = row.get(TASK_INDEX)
        if given is not None:
            return given
        # Identical rows are one task, so that k in pass@k counts all of its attempts.
        key = hashlib.sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).digest()[:16]
        if key not in self._task_of:
            self._task_of[key] = self._next_task
            self._next_task += 1
        return self._task_of[key]


def with_seed(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """`params` with `seed` in `metadata.extra_body`, which is JSON text."""
    metadata = dict(params.get("metadata") or {})
    raw = metadata.get("extra_body")
    extra = orjson.loads(raw) if isinstance(raw, str) else dict(raw or {})
    metadata["extra_body"] = orjson.dumps({**extra, "seed": seed}).decode()
    return {**params, "metadata": metadata}


def _takes_seed(params: Mapping[str, Any]) -> bool:
    try:
        with_seed(params, 0)
    except (TypeError, ValueError):
        return False
    return True
