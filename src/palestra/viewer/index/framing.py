"""Makes the frame of `analysis` from the columns of an index, without reading the rows again."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from palestra.analysis import (
    AgentName,
    Endings,
    FailedAttempt,
    JoinedRun,
    RequestLabels,
    RowPlace,
    RowPositions,
    RunFrame,
    joined_frame,
    shards_missing_beside,
)
from palestra.errors import InputDataError
from palestra.metrics import REWARD, Columns, FloatArray, IntArray, Keys, distinct
from palestra.rollouts import import_advice
from palestra.schema import ReverifyCommand, RunPaths
from palestra.system import shown
from palestra.viewer.index.columns import Gathered, Pointers
from palestra.viewer.index.commits import Commit
from palestra.viewer.index.heaps import Heap
from palestra.viewer.index.joined import Join, Views
from palestra.viewer.index.places import RunPart
from palestra.viewer.index.sources import IndexedFile

Name = TypeVar("Name")


def frame_of(views: Views, commit: Commit, texts: Heap, joined: Join) -> RunFrame:
    """Return a frame, as `load_run(…, allow_partial=True)`. Raises InputDataError, as it does."""
    framing = _Framing(views, commit, texts, joined)
    framing.check()
    return joined_frame(framing.joined_run())


class _GatheredColumns(Mapping[str, FloatArray]):
    """Columns that are gathered whenever they are asked for: only the reward stays in memory."""

    def __init__(self, columns: Mapping[str, Gathered]) -> None:
        self._columns = columns
        self._reward = columns[REWARD].values() if REWARD in columns else np.empty(0)

    def __getitem__(self, name: str) -> FloatArray:
        return self._reward if name == REWARD else self._columns[name].values()

    def __iter__(self) -> Iterator[str]:
        yield REWARD
        yield from (name for name in self._columns if name != REWARD)

    def __len__(self) -> int:
        return len(self._columns.keys() | {REWARD})


class _Framing:
    """Gathers the columns of an index in key order: of the requests, and of those with a result."""

    def __init__(self, views: Views, commit: Commit, texts: Heap, joined: Join) -> None:
        self._views, self._commit, self._texts, self._joined = views, commit, texts, joined
        is_requested = joined.input >= 0
        self._rows = slice(None) if is_requested.all() else np.flatnonzero(is_requested)
        self._inputs = joined.input[self._rows]
        self._of_requests = joined.result[self._rows]
        self._scored = self._of_requests >= 0
        all_scored = bool(self._scored.all())
        self._results = self._of_requests if all_scored else self._of_requests[self._scored]

    def check(self) -> None:
        """Raise InputDataError: the files are not those of a run that can be profiled."""
        for bad in self._commit.problems[:1]:
            path = next(s.path for s in self._commit.sources if s.number == bad.file)
            raise InputDataError(f"{path} line {bad.line} is {bad.reason}", hint="remove the line")
        if not len(self._joined):
            raise InputDataError(
                "no row of the run is read yet", hint="wait until the first row is written and read"
            )
        if not self._files(RunPart.INPUT):
            raise InputDataError(
                "the materialized inputs of the run are missing, so what was requested is unknown",
                hint=f"restore {self._absent_inputs()}{self._import_advice()}",
            )
        joined = self._joined
        unscored = int((~self._views["results.scored"]).sum())
        if unscored or len(joined) > joined.keyed:
            raise InputDataError(
                f"{unscored} result rows have no reward, and "
                f"{len(joined) - joined.keyed} have no indices",
                hint="`palestra reverify` scores rows without a reward",
            )
        if repeated := int(joined.is_duplicate.sum()):
            raise InputDataError(
                f"{repeated} keys occur more than once", hint="`palestra profile` names their lines"
            )
        if orphans := int(((joined.input < 0) & (joined.result >= 0)).sum()):
            raise InputDataError(
                f"{orphans} rollouts have no materialized row", hint="`palestra profile` names them"
            )

    def _absent_inputs(self) -> str:
        """Return the files that should have the requests of the run."""
        run_paths = (RunPaths(Path(output)) for output in self._commit.outputs)
        return " and ".join(shown(paths.materialized_inputs) for paths in run_paths)

    def _import_advice(self) -> str:
        """Return how rollouts without other files become a run; empty when they cannot."""
        outputs = [Path(output) for output in self._commit.outputs]
        return import_advice(outputs[0]) if len(outputs) == 1 else ""

    def joined_run(self) -> JoinedRun:
        """Return the run in key order."""
        joined, views = self._joined, self._views
        fields = self._commit.fields.numbers
        names = sorted(fields, key=lambda name: (name != REWARD, name))
        gathered = {
            name: Gathered(views[fields[name].column], self._results, np.nan) for name in names
        }
        whole_fields = frozenset(name for name in names if fields[name].whole and name != REWARD)
        marks = ("truncated", "empty", "broken_tools", "outside_rules")
        failed = joined.failure >= 0
        return JoinedRun(
            tasks=[joined.tasks.task(rank) for rank in range(len(joined.tasks))],
            requests=Keys(
                joined.task[self._rows].astype(np.int64),
                joined.rollout[self._rows].astype(np.int64),
            ),
            request_places=self._positions_of("inputs", RunPart.INPUT, self._inputs),
            scored=self._scored,
            columns=Columns(_GatheredColumns(gathered), whole_fields),
            rollout_places=self._positions_of("results", RunPart.RESULT, self._results),
            endings=Endings(*(views[f"results.{name}"][self._results] for name in marks)),
            agents=self._agents(),
            families=self._families(),
            failures=self._failures(),
            failure_files=self._files(RunPart.FAILURE),
            unmatched_failures=int((failed & (joined.input < 0)).sum()),
            notices=(),
            missing_shards=shards_missing_beside(self._files(RunPart.RESULT)),
        )

    def _sources(self, part: RunPart) -> list[IndexedFile]:
        return [source for source in self._commit.sources if source.part is part]

    def _files(self, part: RunPart) -> list[Path]:
        return [Path(source.path) for source in self._sources(part)]

    def _positions_of(self, table: str, part: RunPart, pointers: Pointers) -> RowPositions:
        offset = self._views[f"{table}.offset"]
        if not _are_all_in_order(pointers, len(offset)):
            offset = offset[pointers]
        sources = self._sources(part)
        if len(sources) == 1:  # one number for all rows takes no memory
            return RowPositions(
                self._files(part), np.broadcast_to(np.int64(0), len(offset)), offset
            )
        position_of = np.zeros(1 + max((s.number for s in sources), default=0), np.int64)
        position_of[[source.number for source in sources]] = np.arange(len(sources))
        file = position_of[self._views[f"{table}.file"][pointers]]
        return RowPositions(self._files(part), file, offset)

    def _agents(self) -> RequestLabels[AgentName]:
        """Return the agent of each request: of its result, else of its input."""

        def pairs(table: str, pointers: Pointers) -> IntArray:
            names, kinds = (
                Gathered(self._views[f"{table}.{name}"], pointers, -1).values().astype(np.int64)
                for name in ("agent", "agent_type")
            )
            return np.where(names < 0, -1, (names << 32) | (kinds + 1))

        def name_of(pair: int) -> AgentName:
            return AgentName(self._text(pair >> 32), self._text((pair & 0xFFFFFFFF) - 1))

        return _labels(self._first_present(pairs), name_of)

    def _families(self) -> RequestLabels[str] | None:
        """Return the family of each request, as for agents; None when no row has one."""

        def codes(table: str, pointers: Pointers) -> IntArray:
            column = self._views[f"{table}.family"]
            return Gathered(column, pointers, -1).values().astype(np.int64)

        labels = _labels(self._first_present(codes), self._text)
        return labels if labels.names else None

    def _first_present(self, of: Callable[[str, Pointers], IntArray]) -> IntArray:
        """Return what `of` says of the result of each request or, without one (-1), of its input."""
        of_results = of("results", self._of_requests)
        if bool((of_results >= 0).all()):
            return of_results
        return np.where(of_results >= 0, of_results, of("inputs", self._inputs))

    def _text(self, number: int) -> str:
        return self._texts.text(number) if number >= 0 else ""

    def _failures(self) -> dict[int, FailedAttempt]:
        """Return the last failed attempt of each request without a result, combined with the
        earlier ones, by the request's position.
        """
        joined = self._joined
        positions = np.full(len(joined), -1)
        positions[self._rows] = np.where(self._scored, -1, np.arange(len(self._scored)))
        at = positions[joined.failure_of]
        last: dict[int, FailedAttempt] = {}
        attempts = self._attempts(joined.failure_rows[at >= 0])
        for position, failure in zip(at[at >= 0].tolist(), attempts, strict=True):
            last[position] = failure.together(last[position]) if position in last else failure
        return last

    def _attempts(self, rows: Pointers) -> Iterator[FailedAttempt]:
        """Yield the failed attempts at some rows of `failures`."""
        row_positions = self._positions_of("failures", RunPart.FAILURE, rows)
        names = ("attempt", "class", "terminal", "retriable", "answered")
        columns = [self._views[f"failures.{name}"][rows].tolist() for name in names]
        columns += [row_positions.file.tolist(), row_positions.offset.tolist()]
        for (number, name, terminal, retriable, was_answered, file, offset), command in zip(
            zip(*columns, strict=True), self._commands(rows), strict=True
        ):
            row_place = RowPlace(file, offset)
            yield FailedAttempt(
                number,
                self._text(name),
                terminal=bool(terminal),
                retriable=bool(retriable),
                place=row_place,
                answer_place=row_place if was_answered else None,
                reverify=command,
            )

    def _commands(self, rows: Pointers) -> Iterator[ReverifyCommand | None]:
        """Yield the command that each of some rows of `failures` records; None without one."""
        names = ("reverify", "needs_session", "names_judge")
        columns = (self._views[f"failures.{name}"][rows].tolist() for name in names)
        for number, needs_session, names_judge in zip(*columns, strict=True):
            text = self._text(number)
            yield ReverifyCommand(text, needs_session, names_judge) if text else None


def _are_all_in_order(pointers: Pointers, count: int) -> bool:
    return len(pointers) == count and bool((pointers == np.arange(count)).all())


def _labels(numbers: IntArray, name_of: Callable[[int], Name]) -> RequestLabels[Name]:
    """Return the names of numbers, each once: a text may have several numbers, since the index of a
    growing run forgets those that it gave. A negative number stands for no name.
    """
    present = distinct(numbers)
    present = present[present >= 0]
    names = list(map(name_of, present.tolist()))
    code_of = {name: code for code, name in enumerate(dict.fromkeys(names))}
    codes = np.array([code_of[name] for name in names] or [-1], np.int64)
    at = 0 if len(codes) == 1 else np.searchsorted(present, np.maximum(numbers, 0))
    return RequestLabels(list(code_of), np.where(numbers < 0, -1, codes[at]))
