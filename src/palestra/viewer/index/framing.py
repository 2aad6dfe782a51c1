"""Makes the frame of `analysis` from the columns of an index, without reading the rows again."""

from array import array
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from palestra.analysis import (
    AgentName,
    Codes,
    Endings,
    FailedAttempt,
    KeyTable,
    RowPlace,
    RunFrame,
    ScannedRun,
    assemble,
)
from palestra.errors import InputDataError
from palestra.metrics import REWARD, Columns, IntArray, TaskIndex
from palestra.viewer.index.commits import Commit
from palestra.viewer.index.heaps import Heap
from palestra.viewer.index.joined import Join, Views
from palestra.viewer.index.places import RunPart
from palestra.viewer.index.sources import IndexedFile


def frame_of(views: Views, commit: Commit, texts: Heap, joined: Join) -> RunFrame:
    """Return a frame, as `load_run(…, allow_partial=True)`. Raises InputDataError, as it does."""
    framing = _Framing(views, commit, texts, joined)
    framing.check()
    rollouts, order = framing.key_table("results", RunPart.RESULT)
    fields = commit.fields.numbers
    names = sorted(fields, key=lambda name: (name != REWARD, name))
    has_values = {name: views[fields[name].column][order] for name in names}
    columns = Columns(
        {REWARD: np.empty(0)} | has_values,
        frozenset(name for name in names if fields[name].whole and name != REWARD),
    )
    truncated, empty = (views[f"results.{name}"][order] for name in ("truncated", "empty"))
    scanned = ScannedRun(
        tasks=framing.tasks,
        agents=framing.agents,
        families=framing.families,
        inputs=framing.key_table("inputs", RunPart.INPUT)[0],
        rollouts=rollouts,
        columns=columns,
        endings=Endings(truncated, empty),
        failures=framing.failures(),
        failure_files=framing.files(RunPart.FAILURE),
        notices=(),
    )
    return assemble(scanned, allow_partial=True)


class _Framing:
    """Numbers tasks, agents and families consistently across the tables."""

    def __init__(self, views: Views, commit: Commit, texts: Heap, joined: Join) -> None:
        self._views, self._commit, self._texts, self._joined = views, commit, texts, joined
        self.tasks: Codes[TaskIndex] = Codes()
        self.tasks.codes([joined.tasks.task(rank) for rank in range(len(joined.tasks))])
        self.agents: Codes[AgentName] = Codes()
        family_columns = (views[f"{table}.family"] for table in ("inputs", "results"))
        has_family = any((column >= 0).any() for column in family_columns)
        self.families: Codes[str] | None = Codes() if has_family else None

    def check(self) -> None:
        """Raise InputDataError: the files are not those of a run that can be profiled."""
        for bad in self._commit.problems[:1]:
            path = next(s.path for s in self._commit.sources if s.number == bad.file)
            raise InputDataError(f"{path} line {bad.line} is {bad.reason}", hint="remove the line")
        if not self._commit.sources:
            raise InputDataError(
                "the files of the run are not read yet", hint="wait until the first rows are read"
            )
        if not self.files(RunPart.INPUT):
            raise InputDataError(
                "the materialized inputs of the run are missing, so what was requested is unknown",
                hint="restore <stem>_materialized_inputs.jsonl beside the rollouts",
            )
        unscored = int((~self._views["results.scored"]).sum())
        if unscored or len(self._joined) > self._joined.keyed:
            raise InputDataError(
                f"{unscored} result rows have no reward, and "
                f"{len(self._joined) - self._joined.keyed} have no indices",
                hint="`palestra reverify` scores rows without a reward",
            )

    def sources(self, part: RunPart) -> list[IndexedFile]:
        return [source for source in self._commit.sources if source.part is part]

    def files(self, part: RunPart) -> list[Path]:
        return [Path(source.path) for source in self.sources(part)]

    def key_table(self, table: str, part: RunPart) -> tuple[KeyTable, IntArray]:
        """Return the keys of a table, file by file, and the order of its rows."""
        views = self._views
        file, offset = views[f"{table}.file"], views[f"{table}.offset"]
        order = np.lexsort((offset, file))
        sources = self.sources(part)
        first = np.searchsorted(file[order], [source.number for source in sources])
        ranks = self._joined.ranks.ranks(views[f"{table}.task"])

        def column(values: npt.NDArray[Any]) -> "array[int]":
            return array("q", values[order].astype(np.int64).tobytes())

        return KeyTable(
            files=self.files(part),
            first=first.tolist(),
            task=column(ranks),
            rollout=column(views[f"{table}.rollout"]),
            lines=[views[f"{table}.line"][order].tolist()],
            blocks=[0],
            offset=column(offset),
            agent=column(self._agent_codes(table)),
            family=column(self._family_codes(table)),
        ), order

    def failures(self) -> dict[tuple[TaskIndex, int], FailedAttempt]:
        """Return the last failed attempt of each key, combined with the earlier ones."""
        views = self._views
        number_of = {source.number: at for at, source in enumerate(self.sources(RunPart.FAILURE))}
        ranks = self._joined.ranks.ranks(views["failures.task"])
        last: dict[tuple[TaskIndex, int], FailedAttempt] = {}
        for row in np.lexsort((views["failures.offset"], views["failures.file"])).tolist():
            key = self._joined.tasks.task(int(ranks[row])), int(views["failures.rollout"][row])
            file = number_of[int(views["failures.file"][row])]
            row_place = RowPlace(file, int(views["failures.offset"][row]))
            failure = FailedAttempt(
                int(views["failures.attempt"][row]),
                self._texts.text(int(views["failures.class"][row])),
                terminal=bool(views["failures.terminal"][row]),
                retriable=bool(views["failures.retriable"][row]),
                place=row_place,
                answer_place=row_place if views["failures.answered"][row] else None,
                reverify=self._texts.text(int(views["failures.reverify"][row])),
            )
            last[key] = failure.together(last[key]) if key in last else failure
        return last

    def _agent_codes(self, table: str) -> IntArray:
        names, kinds = self._views[f"{table}.agent"], self._views[f"{table}.agent_type"]
        pairs, inverse = np.unique(np.stack([names, kinds], axis=1), axis=0, return_inverse=True)
        codes = [
            self.agents.codes([AgentName(*self._pair(*pair))])[0] if pair[0] >= 0 else -1
            for pair in pairs.tolist()
        ]
        return np.array(codes, np.int64)[inverse] if codes else np.empty(0, np.int64)

    def _pair(self, name: int, kind: int) -> tuple[str, str]:
        return self._texts.text(name), self._texts.text(kind) if kind >= 0 else ""

    def _family_codes(self, table: str) -> IntArray:
        column = self._views[f"{table}.family"]
        if self.families is None:
            return np.full(len(column), -1)
        distinct, inverse = np.unique(column, return_inverse=True)
        codes = [
            self.families.codes([self._texts.text(code)])[0] if code >= 0 else -1
            for code in distinct.tolist()
        ]
        return np.array(codes, np.int64)[inverse] if codes else np.empty(0, np.int64)
