"""Loads a run: scans its three files once each and hands what it kept to `assemble`.

Memory grows with rollouts times numeric fields. A materialized row is kept as its place in the
file; a response is never kept.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palestra.errors import InputDataError
from palestra.profiling.assemble import PARTIAL, assemble
from palestra.profiling.columns import (
    REWARD,
    ROLLOUT_INDEX,
    TASK_INDEX,
    ColumnBuilder,
    Columns,
    Number,
    numbers_of_raw,
)
from palestra.profiling.frame import SCORED, AgentName, RunFrame, TaskIndex
from palestra.profiling.paths import ProfilePaths
from palestra.profiling.scan import Line, RawRow, decode_value, scan_rows
from palestra.profiling.tables import Codes, Failure, KeyTable, Scanned

FAILURE_CLASS = "_ng_failure_class"
LARGEST_INDEX = 2**63 - 1


def load_run(
    inputs_path: Path | str,
    rollouts_path: Path | str,
    *,
    failures_path: Path | str | None = None,
    allow_partial: bool = False,
    group_by: str | None = None,
) -> RunFrame:
    """Read the materialized rows, the rollouts and the failures of a run.

    Without `failures_path` the failures file is looked for by name beside the rollouts.
    `allow_partial` accepts requests without a rollout and a torn last line. `group_by` names a
    string field of the rows (`task_name`, or inside an object `metadata.source_dataset`).
    Raises InputDataError when a file is not what it should be, when a key occurs twice, when a
    rollout has no materialized row, and, unless partial, when a request has no rollout.
    """
    scan = _Scan(group_by)
    inputs = scan.inputs(Path(inputs_path))
    rollouts, columns = scan.rollouts(Path(rollouts_path), allow_partial=allow_partial)
    failures = scan.failures(_failures_file(Path(rollouts_path), failures_path))
    scanned = Scanned(
        tasks=scan.tasks,
        agents=scan.agents,
        families=scan.families if group_by else None,
        inputs=inputs,
        rollouts=rollouts,
        columns=columns,
        failures=failures,
        notices=tuple(scan.notices),
    )
    return assemble(scanned, allow_partial=allow_partial)


class _Scan:
    """Reads the files of one run, sharing the numbering of tasks, agents and families."""

    def __init__(self, group_by: str | None) -> None:
        self.tasks: Codes[TaskIndex] = Codes()
        self.agents: Codes[AgentName] = Codes()
        self.families: Codes[str] = Codes()
        self.notices: list[str] = []
        self._group_by = group_by.split(".") if group_by else []
        self._agent_codes: dict[bytes, int] = {}

    def inputs(self, path: Path) -> KeyTable:
        table = KeyTable(path)
        for line, row in scan_rows(path):
            if REWARD in row and ("response" in row or "responses_create_params" not in row):
                raise InputDataError(
                    f"{path} holds rollouts, not materialized inputs: line {line.number} "
                    "has a reward",
                    hint="give the run's <stem>_materialized_inputs.jsonl as the inputs",
                )
            self._keep(table, line, row)
        return table

    def rollouts(self, path: Path, *, allow_partial: bool) -> tuple[KeyTable, Columns]:
        table, columns = KeyTable(path), ColumnBuilder()
        unscored = 0
        for line, row in scan_rows(path, notices=self.notices if allow_partial else None):
            if REWARD not in row:
                unscored = unscored or line.number
                continue
            self._keep(table, line, row)
            columns.add(_scored_numbers(path, line, row))
        if not table.line:
            raise _no_rollouts(path, unscored)
        if unscored:
            raise InputDataError(f"{path} line {unscored}: the row has no reward")
        return table, columns.build()

    def failures(self, path: Path | None) -> dict[tuple[TaskIndex, int], Failure]:
        """By key, the last failed attempt."""
        last: dict[tuple[TaskIndex, int], Failure] = {}
        if path is None:
            return last
        for line, row in scan_rows(path, notices=self.notices, may_be_empty=True):
            key, failure = _key(path, line, row), _failure(path, line, row)
            last[key] = max(failure, last.get(key, failure))
        return last

    def _keep(self, table: KeyTable, line: Line, row: RawRow) -> None:
        task, rollout = _key(table.path, line, row)
        table.task.append(self.tasks.code(task))
        table.rollout.append(rollout)
        table.line.append(line.number)
        table.offset.append(line.offset)
        table.agent.append(self._agent(row))
        table.family.append(self._family(row))

    def _agent(self, row: RawRow) -> int:
        if "agent_ref" not in row:
            return -1
        text = bytes(row["agent_ref"])
        code = self._agent_codes.get(text)
        if code is None:
            code = self._agent_codes[text] = self._new_agent(decode_value(row["agent_ref"]))
        return code

    def _new_agent(self, ref: object) -> int:
        if not isinstance(ref, Mapping) or not isinstance(ref.get("name"), str):
            return -1
        return self.agents.code(AgentName(ref["name"], str(ref.get("type") or "")))

    def _family(self, row: RawRow) -> int:
        if not self._group_by or self._group_by[0] not in row:
            return -1
        value: Any = decode_value(row[self._group_by[0]])
        for name in self._group_by[1:]:
            value = value.get(name) if isinstance(value, Mapping) else None
        return self.families.code(value) if isinstance(value, str) else -1


def _failures_file(rollouts: Path, given: Path | str | None) -> Path | None:
    if given is not None:
        return Path(given)
    found = ProfilePaths.for_rollouts(rollouts).failures
    return found if found.exists() else None


def _key(path: Path, line: Line, row: RawRow) -> tuple[TaskIndex, int]:
    """The key of a row: its task is a number or a name, its rollout a number."""
    for name in (TASK_INDEX, ROLLOUT_INDEX):
        if name not in row:
            raise InputDataError(
                f"{path} line {line.number} has no {name}",
                hint="give files that a collection wrote; a plain dataset has no indices",
            )
    task, rollout = decode_value(row[TASK_INDEX]), decode_value(row[ROLLOUT_INDEX])
    if not isinstance(task, int | str) or isinstance(task, bool):
        raise InputDataError(f"{path} line {line.number}: {TASK_INDEX} is no integer or name")
    if not isinstance(rollout, int) or isinstance(rollout, bool) or abs(rollout) > LARGEST_INDEX:
        raise InputDataError(f"{path} line {line.number}: {ROLLOUT_INDEX} is no integer")
    return task, rollout


def _scored_numbers(path: Path, line: Line, row: RawRow) -> dict[str, Number]:
    numbers = numbers_of_raw(row)
    reward = numbers.get(REWARD)
    if reward is None or not math.isfinite(reward.value):
        found = bytes(row[REWARD])[:60] if reward is None else str(reward.value).encode()
        raise InputDataError(
            f"{path} line {line.number}: the reward is {found.decode('utf-8', 'replace')}, "
            "not a finite number",
            hint="only scored rows belong in this file; re-run the verifier over it, or remove "
            f"the row and profile with {PARTIAL}",
        )
    return numbers


def _failure(path: Path, line: Line, row: RawRow) -> Failure:
    found = decode_value(row[FAILURE_CLASS]) if FAILURE_CLASS in row else None
    if not isinstance(found, str) or found == SCORED:
        raise InputDataError(
            f"{path} line {line.number} has no {FAILURE_CLASS}",
            hint="give the run's <stem>_failures.jsonl as the failures",
        )
    attempt = decode_value(row["attempt"]) if "attempt" in row else 1
    return Failure(attempt if isinstance(attempt, int) else 1, found)


def _no_rollouts(path: Path, line: int) -> InputDataError:
    """`line`: where the first row without a reward is; 0 if every row was left out."""
    what = f": no row has a reward, from line {line} on" if line else ""
    return InputDataError(
        f"{path} holds no rollouts{what}",
        hint="give the file that the run's output_jsonl_fpath names, not its inputs or failures",
    )
