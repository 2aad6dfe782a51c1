"""Expand the input rows: check each one, give it an agent and indices, and repeat it.

Every row is checked before anything runs, and all problems are reported in one error. Rows are
streamed: memory use is one digest and two numbers per distinct task.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from palestra.config import ServerType, did_you_mean
from palestra.datasets import (
    RowProblems,
    fill_row,
    load_prompt,
    missing_file,
    missing_params,
    misspelt_agent,
    parameter_problems,
    skills_in,
)
from palestra.errors import ConfigError, InputDataError
from palestra.observability import rollout_id_of
from palestra.rollouts.task_identity import INDEX_OF_ANOTHER_TASK, row_digest, task_digest
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    SKILLS_REF,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    Line,
    VerifyResponse,
    jsonl_lines,
    read_jsonl,
)
from palestra.settings import (
    OTHER_AGENTS,
    CollectSettings,
    InputFile,
    existing_path,
)

AGENT_TYPE = "responses_api_agents"
_OTHER_SERVERS: Final = (ServerType.RESOURCES, ServerType.MODEL)
"""The types of servers that a row may name by mistake."""
FIRST_ROWS = 100
"""How many rows of each file are looked at to say at once that a field does not exist."""


class Place(NamedTuple):
    """The position of a row: an input file and a line number from 1."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path} line {self.line}"


class Expansion:
    """One pass over the input. It collects problems instead of stopping at the first."""

    def __init__(self, settings: CollectSettings, agents: frozenset[str]) -> None:
        self._settings = settings
        self._known_agents = agents
        _check_repeats(settings.num_repeats, agents)
        _check_agent(settings.agent_name, agents)
        self._skills = skills_ref(settings)
        self._templates = {
            source: load_prompt(path) if (path := settings.prompt_of(source)) else None
            for source in settings.inputs
        }
        self._problems = RowProblems()
        self._task_of: dict[bytes, int] = {}
        self._digest_of: dict[int, bytes] = {}
        self._repeats_of: dict[int, int] = {}
        self._next_task = 0
        self._with_index: Place | None = None
        self._without_index: Place | None = None
        self._has_shared_index = False
        self.digest = hashlib.sha256()
        self.rows_of_agents: Counter[str] = Counter()
        """The number of input rows of each agent."""
        self.places: dict[int, Place] = {}
        self.rollouts = 0
        """Rollouts of the whole run so far, whatever share of them is written."""
        self._lines = 0

    @property
    def tasks(self) -> int:
        """The number of distinct tasks so far."""
        return len(self.places)

    def rows(self, mine: frozenset[int] | None = None) -> Iterator[JsonDict]:
        """Yield the materialized rows of the tasks in `mine`; None: of all tasks.

        A bad row is recorded as a problem and not yielded.
        """
        for source, line in self._input():
            self._lines += 1
            row_place = Place(source.path, line.number)
            row = self._checked(line, row_place, source)
            if row is not None and self._is_one_task(row, row_place):
                yield from self._repeat(row, row_place, source.repeats, mine)

    def finish(self) -> None:
        """Raise InputDataError for all problems found, or for input without rows."""
        if self._with_index is not None and self._without_index is not None:
            same_file = self._with_index.path == self._without_index.path
            indexed_place = f"line {self._with_index.line}" if same_file else str(self._with_index)
            self._problems.add(
                *self._without_index,
                f"no {TASK_INDEX}, but {indexed_place} has one: all rows or none",
            )
        self._problems.raise_if_any(hint=INDEX_OF_ANOTHER_TASK if self._has_shared_index else "")
        if self._lines == 0 and self._settings.limit != 0:
            file_names = ", ".join(str(source.path) for source in self._settings.inputs)
            raise InputDataError(
                f"{file_names} has no rows",
                hint="each line must be one task: a JSON object with responses_create_params",
            )

    def _input(self) -> Iterator[tuple[InputFile, Line]]:
        remaining = self._settings.limit
        if remaining == 0:
            return
        for source, line in lines_of_all(self._settings.inputs):
            yield source, line
            if remaining is not None:
                remaining -= 1
                if remaining == 0:
                    return

    def _checked(self, line: Line, row_place: Place, source: InputFile) -> JsonDict | None:
        if line.error:
            self._problems.add(*row_place, line.error)
            return None
        if not isinstance(line.row, dict):
            self._problems.add(*row_place, "not a JSON object")
            return None
        row = dict(line.row)
        self.digest.update(orjson.dumps([row, source.repeats], option=orjson.OPT_SORT_KEYS))
        prompt_problems = list(self._prompt(row, source))
        # Without its prompt a row has no parameters, which is no second problem.
        has_params = not prompt_problems or CREATE_PARAMS in row
        problems = [
            *prompt_problems,
            *(self._params(row) if has_params else ()),
            *self._agent(row, source.agent),
            *self._index(row, row_place),
            *_rollout_id(row),
        ]
        for problem in problems:
            self._problems.add(*row_place, problem)
        return None if problems else row

    def _prompt(self, row: JsonDict, source: InputFile) -> Iterator[str]:
        template = self._templates[source]
        if template is None or not isinstance(row.get(CREATE_PARAMS) or {}, Mapping):
            return  # what is no object is told by `_params`
        try:
            row.update(fill_row(template, row))
        except ValueError as error:
            yield str(error)

    def _params(self, row: JsonDict) -> Iterator[str]:
        params = row.get(CREATE_PARAMS)
        if params is None:
            yield missing_params(row)
            return
        if not isinstance(params, Mapping):
            yield f"/{CREATE_PARAMS} is not an object"
            return
        merged = {**params, **self._settings.responses_create_params}
        problems = list(parameter_problems(merged))
        yield from problems
        adds_seed = self._settings.num_repeats_add_seed and not problems
        if adds_seed and not _takes_seed(merged):
            yield f"/{CREATE_PARAMS}/metadata/extra_body is not a JSON object"
        row[CREATE_PARAMS] = merged

    def _agent(self, row: JsonDict, default: str | None) -> Iterator[str]:
        if problems := list(misspelt_agent(row)):
            yield from problems
            return
        ref = row.get(AGENT_REF)
        name = ref.get("name") if isinstance(ref, Mapping) else None
        if name is not None and not isinstance(name, str):
            yield f"/{AGENT_REF}/name is not a text"
            return
        name = name or default or self._settings.agent_name or self._only_agent()
        if not name:
            agent_names = ", ".join(sorted(self._known_agents)) or "none"
            yield f"no agent_ref, and no agent_name was given (agents: {agent_names})"
            return
        if name not in self._known_agents:
            agent_names = ", ".join(sorted(self._known_agents)) or "none"
            kind = ref.get("type") if isinstance(ref, Mapping) else None
            if kind in _OTHER_SERVERS:
                noun = ServerType(kind).noun
                yield f"/{AGENT_REF} names {noun} ({name!r}), not an agent (agents: {agent_names})"
                return
            near = did_you_mean(name, self._known_agents)
            yield f"agent {name!r} does not exist (agents: {agent_names}){near}"
        self.rows_of_agents[name] += 1
        row[AGENT_REF] = {"type": AGENT_TYPE, "name": name}

    def _only_agent(self) -> str | None:
        """Return the only agent's name; None when there are several. With one agent, rows need not
        name it.
        """
        return next(iter(self._known_agents)) if len(self._known_agents) == 1 else None

    def _index(self, row: JsonObject, row_place: Place) -> Iterator[str]:
        index = row.get(TASK_INDEX)
        if index is None:
            self._without_index = self._without_index or row_place
        elif not isinstance(index, int) or isinstance(index, bool) or index < 0:
            yield f"/{TASK_INDEX} is {index!r}, not a whole number from 0"
        else:
            self._with_index = self._with_index or row_place

    def _is_one_task(self, row: JsonObject, row_place: Place) -> bool:
        """Whether the earlier rows with the row's index, if any, are of the same task; else record
        the problem.
        """
        index = row.get(TASK_INDEX)
        if index is None:
            return True
        digest = task_digest(row)
        if self._digest_of.setdefault(index, digest) == digest:
            return True
        first = self.places[index]
        first_place = f"line {first.line}" if first.path == row_place.path else str(first)
        another_task = f"as on {first_place}, which is another task"
        if first == row_place:
            another_task = "for two agents, each of which makes a task of it"
        self._has_shared_index = True
        self._problems.add(*row_place, f"/{TASK_INDEX} is {index}, {another_task}")
        return False

    def _repeat(
        self, row: JsonDict, row_place: Place, repeats: int, mine: frozenset[int] | None
    ) -> Iterator[JsonDict]:
        task = self._task_index(row)
        self.places.setdefault(task, row_place)
        for _ in range(repeats * self._settings.repeats_of(row[AGENT_REF]["name"])):
            rollout = self._repeats_of.get(task, 0)
            self._repeats_of[task] = rollout + 1
            self.rollouts += 1
            if mine is not None and task not in mine:
                continue
            rollout_row = {**row, TASK_INDEX: task, ROLLOUT_INDEX: rollout}
            if self._skills is not None:
                rollout_row[SKILLS_REF] = self._skills
            if self._settings.num_repeats_add_seed:
                rollout_row[CREATE_PARAMS] = with_seed(row[CREATE_PARAMS], rollout)
            yield rollout_row

    def _task_index(self, row: JsonDict) -> int:
        index: int | None = row.get(TASK_INDEX)
        if index is not None:
            return index
        # Identical rows are one task, so that k in pass@k counts all of its attempts.
        key = row_digest(row)
        if key not in self._task_of:
            self._task_of[key] = self._next_task
            self._next_task += 1
        return self._task_of[key]


def _rollout_id(row: JsonObject) -> Iterator[str]:
    try:
        rollout_id_of(row)
    except ValueError as error:
        yield f"/{error}"


def skills_ref(settings: CollectSettings) -> JsonDict | None:
    """Return the skills of a run as its rows record them; None: the run has none.

    Raises ConfigError: the folder does not exist, or a skill in it is wrong.
    """
    if settings.skills is None:
        return None
    try:
        skills = skills_in(existing_path(settings.skills), path=settings.skills)
    except ValueError as error:
        raise ConfigError(
            str(error), hint="+skills.path=DIR, where DIR has a <skill>/SKILL.md for each skill"
        ) from error
    return skills.model_dump()


def _check_agent(name: str | None, agents: frozenset[str]) -> None:
    """Raise ConfigError when the agent for rows that name none does not exist."""
    if name is not None and name not in agents:
        raise ConfigError(
            f"there is no agent {name!r}{did_you_mean(name, agents)}",
            hint=f"agents: {', '.join(sorted(agents)) or 'none'}",
        )


def _check_repeats(repeats: int | Mapping[str, int], agents: frozenset[str]) -> None:
    """Raise ConfigError when the mapping `repeats` names agents that do not exist."""
    names = set() if isinstance(repeats, int) else repeats.keys() - agents - {OTHER_AGENTS}
    if names:
        near = did_you_mean(min(names), agents)
        raise ConfigError(
            f"num_repeats names agents that do not exist: {', '.join(sorted(names))}{near}",
            hint=f"agents: {', '.join(sorted(agents)) or 'none'}; {OTHER_AGENTS} is for all others",
        )


def lines_of_all(inputs: Iterable[InputFile]) -> Iterator[tuple[InputFile, Line]]:
    """Yield the rows of all input files, one file after another. Raises InputDataError: a file
    cannot be read.
    """
    for source in inputs:
        for line in _lines_of(source):
            yield source, line


def unknown_field(path: str, inputs: Sequence[InputFile]) -> str:
    """Return why rollouts may have no field `path`, such as `topic` or `meta.level`; empty when
    one of the first rows has it.

    A verifier may add a field to its results, so that this is no error.
    """
    name = path.partition(".")[0]
    names: dict[str, None] = {}
    for source in inputs:
        for line in islice(_lines_of(source), FIRST_ROWS):
            names.update(dict.fromkeys(line.row if isinstance(line.row, Mapping) else ()))
    if not names or name in names or name in {AGENT_REF, *VerifyResponse.model_fields}:
        return ""
    fields = ", ".join(sorted(names.keys() - {CREATE_PARAMS}))
    return (
        f"no row has the field {name!r} (rows have: {fields}), so only a verifier can add it"
        f"{did_you_mean(name, names)}"
    )


def _lines_of(source: InputFile) -> Iterator[Line]:
    """Yield the rows `start` to `end` of one file. Raises InputDataError: the file cannot be read."""
    content = source.content
    lines = read_jsonl(source.path) if content is None else jsonl_lines(io.BytesIO(content))
    try:
        for number, line in enumerate(lines):
            if source.end is not None and number >= source.end:
                return
            if number >= source.start:
                yield line
    except FileNotFoundError:
        raise missing_file(source.path, "input file") from None
    except OSError as error:
        raise InputDataError(f"input file {source.path}: {error.strerror}") from error


def with_seed(params: JsonObject, seed: int) -> JsonDict:
    """Return `params` with `seed` added to `metadata.extra_body`, which is JSON text."""
    metadata = dict(params.get("metadata") or {})
    raw = metadata.get("extra_body")
    extra = orjson.loads(raw) if isinstance(raw, str) else dict(raw or {})
    metadata["extra_body"] = orjson.dumps({**extra, "seed": seed}).decode()
    return {**params, "metadata": metadata}


def _takes_seed(params: JsonObject) -> bool:
    try:
        with_seed(params, 0)
    except (TypeError, ValueError):
        return False
    return True
