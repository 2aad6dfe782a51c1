"""What the page asks for, and what the answers are made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from palestra.errors import ConfigError, InputDataError
from palestra.metrics import TaskIndex
from palestra.viewer.catalog import Catalog, NoSuchRun, OpenRun
from palestra.viewer.index import IndexSnapshot
from palestra.viewer.reads import ReadStop
from palestra.viewer.tokenizers import TokenTexts

NO_INDEX = "-"
"""Stands in addresses for the task and the rollout of a line without indices."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """What all pages share."""

    catalog: Catalog
    arguments: tuple[str, ...] = ()
    query: str = ""
    """The query of `--filter`."""
    tokenizer: TokenTexts | None = None
    folder: Path = Path()
    """The working directory of the command."""
    indexing_s: float = 1.0
    """How long a request waits for the index to reach its row."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request: the parts of its path, and its parameters."""

    viewer: Viewer
    parts: Mapping[str, str]
    parameters: Mapping[str, str]
    stop: ReadStop

    @property
    def run(self) -> OpenRun:
        """The run. Raises NoSuchRun."""
        return self.viewer.catalog.run(self.parts["run"])

    def text(self, name: str, default: str = "") -> str:
        return self.parameters.get(name, default)

    def flag(self, name: str) -> bool:
        """Whether a parameter is `1` or `true`."""
        return self.text(name) in {"1", "true"}

    def integer(self, name: str, default: int = 0, *, limit: int = 1 << 53) -> int:
        """Return a number from 0 to `limit`. Raises ConfigError: it is not one."""
        value = self.parameters.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal()) or int(value[:20]) > limit:
            raise ConfigError(f"{name} is {value[:40]!r}, not a whole number from 0 to {limit:,}")
        return int(value)

    def number(self, name: str) -> float | None:
        """Return a number; None without one. Raises ConfigError: it is not one."""
        value = self.parameters.get(name)
        if value in {None, ""}:
            return None
        try:
            return float(str(value))
        except ValueError:
            raise ConfigError(f"{name} is {str(value)[:40]!r}, not a number") from None


def find_task(snapshot: IndexSnapshot, request: PageRequest) -> tuple[TaskIndex, int]:
    """Return a task and its row number in the table of tasks. Raises NoSuchRow."""
    name = request.parts["task"]
    for task in candidates(name):
        row = snapshot.find_task(task)
        if row is not None:
            return task, row
    raise NoSuchRow(f"there is no task {name[:80]!r} in this run", request.run, snapshot)


def candidates(name: str) -> list[TaskIndex]:
    """Return the tasks that a text in an address may be: a number, else a name."""
    is_number = name.isascii() and name.removeprefix("-").isdecimal() and len(name) < 20
    return [int(name), name] if is_number else [name]


def find_row(snapshot: IndexSnapshot, request: PageRequest) -> int:
    """Return the row number of the rollout that a request names. Raises NoSuchRow."""
    rows = len(snapshot.rollouts)
    if "row" in request.parameters:
        row = request.integer("row")
        if row < rows:
            return row
        message = f"there is no row {row} among the {rows} rows of this run"
        raise NoSuchRow(message, request.run, snapshot)
    task, rollout = request.parts["task"], request.parts["rollout"]
    row_number = row_of(snapshot, task, rollout)
    if row_number is None:
        name = f"{task[:80]}:{rollout[:20]}"
        raise NoSuchRow(f"there is no rollout {name} in this run", request.run, snapshot)
    return row_number


def row_of(snapshot: IndexSnapshot, task: str, rollout: str) -> int | None:
    """Return the row number of a rollout by its indices as text; None without it."""
    if not (rollout.isascii() and rollout.isdecimal() and len(rollout) < 20):
        return None
    rows = (snapshot.find(candidate, int(rollout)) for candidate in candidates(task))
    return next((row for row in rows if row is not None), None)


class NoSuchRow(NoSuchRun):
    """The request names a task or a rollout that is not in what is indexed of a run."""

    def __init__(self, message: str, run: OpenRun, snapshot: IndexSnapshot) -> None:
        """`snapshot`: what was looked at."""
        super().__init__(message)
        self.run, self._snapshot = run, snapshot

    @property
    def may_come(self) -> bool:
        """Whether the files may hold the row: what was looked at lacks rows that they hold. Such
        rows can be indexed by now.
        """
        return self.run.is_behind or self._snapshot is not self.run.snapshot


class StillIndexing(InputDataError):
    """The reply needs more of a run than is indexed so far. `message`: what it lacks."""

    def __init__(self, message: str, run: OpenRun) -> None:
        self.run = run
        progress = run.progress
        super().__init__(
            f"{message} so far: {progress.bytes_indexed:,} of {progress.bytes_total:,} bytes"
            " are indexed",
            hint="the page asks again by itself; other clients: ask again in a second",
        )


class PartFailed(InputDataError):
    """A part of a page cannot be shown. The other parts can."""
