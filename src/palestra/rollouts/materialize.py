"""Materialization: from an input file to one row per requested rollout.

Every row is checked before anything runs, and all that is wrong is said at once. The result is
written beside a temporary name and renamed, so a run's materialized inputs are whole or absent.
Rows are streamed: memory grows with the number of distinct tasks, by a digest each.
"""

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def materialize(
    settings: CollectSettings, output: Path, *, agents: Collection[str]
) -> Materialized:
    """Write the materialized inputs of `settings` to `output`.

    `agents`: the agent instances that exist. Raises InputDataError, with every offending line,
    before `output` exists.
    """
    expansion = _Expansion(settings, frozenset(agents))
    beside = output.with_name(output.name + ".tmp")
    _make_folder(output.parent)
    try:
        with beside.open("wb") as file:
            for row in expansion.rows():
                file.write(orjson.dumps(row))
                file.write(b"\n")
            expansion.finish()
            file.flush()
            os.fsync(file.fileno())
        beside.replace(output)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return Materialized(
        path=output,
        tasks=expansion.tasks,
        rollouts=expansion.rollouts,
        input_digest=expansion.digest.hexdigest(),
        agents=tuple(sorted(expansion.agents_used)),
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputDataError(f"{folder} cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise InputDataError(
            f"{folder} is not writable", hint="choose another output, or mend its permissions"
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
        found = [*self._prompt(row), *self._params(row), *self._agent(row)]
        for problem in found:
            self._problems.add(line.number, problem)
        return None if found else row

    def _prompt(self, row: dict[str, Any]) -> Iterator[str]:
        template: PromptTemplate | None = self._template
        if template is None:
            return
        params = dict(row.get(CREATE_PARAMS) or {})
        if params.get("input"):
            yield f"/{CREATE_PARAMS}/input is there already, and prompt_config would replace it"
        elif missing := template.missing(row):
            yield f"prompt_config needs the fields {', '.join(missing)}"
        else:
            row[CREATE_PARAMS] = {**params, "input": template.fill(row)}

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
            for problem in error.errors(include_url=False, include_input=False):
                pointer = "/".join(str(part) for part in problem["loc"])
                yield f"/{CREATE_PARAMS}/{pointer}: {problem['msg']}"
        row[CREATE_PARAMS] = merged

    def _agent(self, row: dict[str, Any]) -> Iterator[str]:
        ref = row.get(AGENT_REF)
        name = ref.get("name") if isinstance(ref, Mapping) else None
        name = name or self._settings.agent_name
        if not name:
            yield "no agent_ref, and no agent_name was given"
            return
        if name not in self._known_agents:
            known = ", ".join(sorted(self._known_agents)) or "none"
            yield f"agent {name!r} does not exist (agents: {known})"
        self.agents_used.add(name)
        row[AGENT_REF] = {"type": AGENT_TYPE, "name": name}

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
        given = row.get(TASK_INDEX)
        if isinstance(given, int):
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
