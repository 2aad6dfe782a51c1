"""Stored rollouts: rows with a model's earlier response, to be verified again.

Rows from other tools and older versions are accepted: a verifier needs the response and the task's
fields, but no Palestra indices.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.config import nearest
from palestra.datasets import RowProblems
from palestra.errors import InputDataError
from palestra.rollouts.reverification.task_rows import IDENTITY, FoundTaskRows, TaskRows, digest_of
from palestra.rollouts.reverification.unverified import UnverifiedAnswers
from palestra.schema import (
    AGENT_REF,
    CONVERSATION_DIFFERS,
    CREATE_PARAMS,
    EMPTY_ANSWER,
    FAILURE_CLASS,
    JUDGE_REPLAY,
    OUTSIDE_REWARD_RULES,
    PREVIOUS_REWARD,
    ROLLOUT_INDEX,
    TASK_INDEX,
    UNUSED_WEIGHTS,
    JsonDict,
    JsonObject,
    Line,
    read_jsonl,
)

RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class Routes:
    """The resources server that verifies a row: the one of its agent, else `otherwise`."""

    by_agent: Mapping[str, str]
    otherwise: str | None = None

    def of(self, agent: str | None) -> str | None:
        """Return the resources server for rows of `agent`; None when it is unknown."""
        return self.by_agent.get(agent or "", self.otherwise)

    def why_not(self, agent: str | None) -> str:
        """Return the message for a row without a resources server."""
        if not agent:
            return "no agent_ref, and several environments are configured"
        near = nearest(agent, self.by_agent)
        suggestion = f"; did you mean {near!r}?" if near else ""
        return f"agent {agent!r} is not in the configuration{suggestion}"


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row to verify again. `line`: its line number in its file, from 1."""

    line: int
    row: JsonObject
    task: JsonObject
    """The row's task row, if one was found. Its fields override the task fields in the rollout."""
    server: str
    unverified: bool = False
    """Whether the row comes from a failures file; then `line` is a line of that file."""

    @property
    def previous(self) -> float | None:
        """The row's old reward; None when it has none."""
        reward = self.row.get("reward")
        return float(reward) if isinstance(reward, bool | int | float) else None

    @property
    def agent(self) -> str:
        """The name of the agent that produced the row; empty when unknown."""
        return agent_of(self.row) or ""

    def identity(self) -> JsonDict:
        """Return the row's indices and agent reference, as far as it has them."""
        return {key: self.row[key] for key in IDENTITY if key in self.row}

    def task_fields(self) -> JsonDict:
        """Return the fields that seed a session and that the verifier receives, without the
        response.
        """
        row_values = {k: v for k, v in self.row.items() if k not in _OF_THE_VERDICT}
        task_values = {k: v for k, v in self.task.items() if k not in _OF_THE_ROLLOUT}
        return {**row_values, **task_values}

    def place(self) -> str:
        """Return the row's position as text: `line 12 (task 3, rollout 0)`."""
        task, rollout = self.row.get(TASK_INDEX), self.row.get(ROLLOUT_INDEX)
        parts = [f"task {task}"] if task is not None else []
        parts += [f"rollout {rollout}"] if rollout is not None else []
        file = "failures file, " if self.unverified else ""
        return f"{file}line {self.line}" + (f" ({', '.join(parts)})" if parts else "")


_OF_THE_VERDICT = frozenset(
    {
        RESPONSE,
        "reward",
        PREVIOUS_REWARD,
        JUDGE_REPLAY,
        EMPTY_ANSWER,
        CONVERSATION_DIFFERS,
        OUTSIDE_REWARD_RULES,
        UNUSED_WEIGHTS,
    }
)
_OF_THE_ROLLOUT = _OF_THE_VERDICT | {*IDENTITY, CREATE_PARAMS}


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a file of stored rollouts: the number of rows, digest and servers."""

    rows: int
    digest: str
    servers: tuple[str, ...]
    """The resources servers that the rows need."""
    notices: tuple[str, ...] = ()


class StoredRollouts:
    """A file of stored rollouts, read as a stream. `limit`: the maximum number of rows; None: all.
    `only`: names of rollouts, such as `17:3`; empty: all.
    """

    def __init__(
        self,
        path: Path,
        routes: Routes,
        *,
        limit: int | None = None,
        only: Sequence[str] = (),
        tasks: TaskRows | FoundTaskRows | None = None,
        unverified: UnverifiedAnswers | None = None,
    ) -> None:
        """Create the stream.

        `unverified`: rows of a failures file, which follow the rows of `path`. When `path` is that
        failures file, only these rows are read.
        """
        self._path = path
        self._unverified = unverified
        self._routes = routes
        self._limit = limit
        self._only = frozenset(only)
        self._tasks = tasks

    def check(self) -> Checked:
        """Check every row. Raises InputDataError that lists all rows that cannot be verified."""
        digest = self._digest()
        problems = RowProblems()
        servers: set[str] = set()
        notices: list[str] = []
        row_count = 0
        absent = set(self._only)
        without = _WithoutResponse(self._path)
        for line, path in self._lines():
            if line.torn:
                notices.append(f"{path}: left out a torn last line ({line.number})")
                continue
            row_count += 1
            absent.discard(_name_of(line.row))
            without.look_at(line.row)
            line_problems = list(_problems(line)) or self._add_server(line.row, servers)
            for problem in line_problems:
                problems.add(path, line.number, problem)
        _refuse_absent(self._path, absent, was_limited=self._limit is not None)
        without.raise_if_all(row_count)
        problems.raise_if_any(hint=self._hint)
        if not row_count and self._limit != 0:
            raise InputDataError(f"{self._path} has no rows", hint="one rollout a line, as JSON")
        return Checked(row_count, digest, tuple(sorted(servers)), tuple(notices))

    def rows(self, count: int) -> Iterator[StoredRow]:
        """Yield the first `count` rows. Call `check` first."""
        whole_lines = ((line, path) for line, path in self._lines() if not line.torn)
        for number, (line, path) in enumerate(whole_lines):
            if number >= count:
                return
            if not isinstance(line.row, dict):
                raise InputDataError(f"{path} was changed while it was read")
            task = self._task_of(line.row)
            server = self._server_of(line.row, task)
            if isinstance(task, str) or server is None:
                raise InputDataError(f"{path} was changed while it was read")
            of_failures = self._unverified is not None and path == self._unverified.path
            yield StoredRow(line.number, line.row, task, server, unverified=of_failures)

    @property
    def _hint(self) -> str:
        if self._routes.otherwise is None:
            return "--environment NAME verifies every row with that one"
        return ""

    def _digest(self) -> str:
        """Return what the verified rows are made of; other rollouts of the same files differ."""
        unverified = self._unverified
        digests = [] if unverified is None else [unverified.digest]
        if unverified is None or unverified.path != self._path:
            digests.insert(0, digest_of(self._path))
        return "+".join([*digests, *sorted(self._only)])

    def _lines(self) -> Iterator[tuple[Line, Path]]:
        lines = self._all_lines()
        if self._only:
            lines = (pair for pair in lines if _name_of(pair[0].row) in self._only)
        for count, line_and_path in enumerate(lines):
            if self._limit is not None and count >= self._limit:
                return
            yield line_and_path

    def _all_lines(self) -> Iterator[tuple[Line, Path]]:
        unverified = self._unverified
        if unverified is None or unverified.path != self._path:
            for line in read_jsonl(self._path):
                yield line, self._path
        if unverified is not None:
            for line in unverified.lines(self._tasks):
                yield line, unverified.path

    def _add_server(self, row: JsonObject, servers: set[str]) -> list[str]:
        task = self._task_of(row)
        if isinstance(task, str):
            return [task]
        server = self._server_of(row, task)
        if server is None:
            return [self._routes.why_not(agent_of(row) or agent_of(task))]
        servers.add(server)
        return []

    def _task_of(self, row: JsonObject) -> JsonObject | str:
        return {} if self._tasks is None else self._tasks.row_of(row)

    def _server_of(self, row: JsonObject, task: JsonObject | str) -> str | None:
        task_fields = {} if isinstance(task, str) else task
        return self._routes.of(agent_of(row) or agent_of(task_fields))


def _name_of(row: Any) -> str:
    """Return the name of a row's rollout, such as `17:3`; empty without indices."""
    if not isinstance(row, dict) or not {TASK_INDEX, ROLLOUT_INDEX} <= row.keys():
        return ""
    return f"{row[TASK_INDEX]}:{row[ROLLOUT_INDEX]}"


def _refuse_absent(path: Path, names: Collection[str], *, was_limited: bool) -> None:
    """Raise InputDataError when rollouts that `only` names are not among the rows."""
    if not names:
        return
    limited = "among the first rows that --limit takes, or " if was_limited else ""
    raise InputDataError(
        f"{path} has no rollout {', '.join(sorted(names))}",
        hint=f"it is not {limited}in the scored rows; --with-failures reads the answers of failed "
        "rollouts, too",
    )


def agent_of(row: JsonObject) -> str | None:
    """Return the name of the agent that produced a row; None when the row does not contain it."""
    ref = row.get(AGENT_REF)
    name = ref.get("name") if isinstance(ref, Mapping) else None
    return name if isinstance(name, str) else None


def _problems(line: Line) -> Iterator[str]:
    row = line.row
    if line.error:
        yield line.error
        return
    if not isinstance(row, dict):
        yield "not a JSON object"
        return
    for field, inner in ((CREATE_PARAMS, "input"), (RESPONSE, "output")):
        value = row.get(field)
        if value is None:
            yield f"no `{field}`"
        elif not isinstance(value, Mapping):
            yield f"/{field} is not an object"
        elif inner not in value:
            yield f"/{field}/{inner} is missing"


class _WithoutResponse:
    """Detects a file whose rows never had responses: tasks, materialized inputs or failures."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tasks = 0
        self._inputs = 0
        self._failures = 0

    def look_at(self, row: Any) -> None:
        """Count the kind of one row."""
        if not isinstance(row, dict) or RESPONSE in row:
            return
        if FAILURE_CLASS in row:
            self._failures += 1
        elif TASK_INDEX in row and ROLLOUT_INDEX in row and CREATE_PARAMS in row:
            self._inputs += 1
        elif CREATE_PARAMS in row:
            self._tasks += 1

    def raise_if_all(self, rows: int) -> None:
        """Raise InputDataError: all `rows` rows are of one kind without responses."""
        if rows == 0:
            return
        if self._failures == rows:
            what = "a failures file: its rows have no response, as the model had not answered"
        elif self._inputs == rows:
            what = "materialized inputs, not rollouts: its rows have no response"
        elif self._tasks == rows:
            what = "tasks, not rollouts: its rows have no response"
        else:
            return
        raise InputDataError(
            f"{self._path} holds {what}",
            hint="--rollouts takes the scored rows of a run, <stem>.jsonl; the inputs it was "
            "made from go to --inputs",
        )
