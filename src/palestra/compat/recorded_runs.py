"""The files of a collection that `RolloutCollectionHelper` runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.observability import without_attachments
from palestra.schema import (
    AGENT_REF,
    ATTEMPT_INDEX,
    CREATE_PARAMS,
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    NO_PERSIST,
    ROLLOUT_INDEX,
    SKILLS_REF,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    RolloutKey,
    RunPaths,
    encode_json,
    key_of,
    read_jsonl,
)
from palestra.system import write_whole

_IDENTITY = (TASK_INDEX, ROLLOUT_INDEX, ATTEMPT_INDEX, AGENT_REF, SKILLS_REF)
_RESPONSE = "response"


def identified(row: JsonObject, result: JsonObject) -> JsonDict:
    """Return a result with the identity of its row."""
    return {**result, **{name: row[name] for name in _IDENTITY if name in row}}


def aggregation_row(result: JsonObject) -> JsonDict:
    """Return a result as aggregation requests send it: without its bodies, but with the usage."""
    row = without_attachments(result)
    row.pop(CREATE_PARAMS, None)
    response = row.get(_RESPONSE)
    row[_RESPONSE] = {"usage": response.get("usage") if isinstance(response, Mapping) else None}
    return row


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The files of one run. Every row is written before the next result is awaited."""

    paths: RunPaths

    def exists(self) -> bool:
        """Whether the run can be resumed: its inputs and its results are there."""
        return self.paths.materialized_inputs.exists() and self.paths.output.exists()

    def begin(self, rows: list[JsonDict]) -> None:
        """Write the inputs of a new run, and remove an earlier run's results."""
        self.paths.output.parent.mkdir(parents=True, exist_ok=True)
        self.paths.output.unlink(missing_ok=True)
        self.paths.failures.unlink(missing_ok=True)
        lines = b"".join(encode_json(row) + b"\n" for row in rows)
        write_whole(self.paths.materialized_inputs, lines)

    def record(self, result: JsonObject) -> bool:
        """Write a result. Return whether it counts as scored.

        One that is marked as failed goes to the failures file; one that is not to be kept goes
        nowhere.
        """
        if result.get(NO_PERSIST):
            return False
        failed = FAILURE_CLASS in result
        with (self.paths.failures if failed else self.paths.output).open("ab") as file:
            file.write(encode_json(result) + b"\n")
        return not failed

    def results(self) -> list[JsonDict]:
        """Return the scored results."""
        return _rows(self.paths.output)

    def in_order(self, results: list[JsonDict]) -> list[JsonDict]:
        """Return results in task order."""
        return sorted(results, key=key_of)

    def remaining(self, max_attempts: int) -> list[JsonDict]:
        """Return the rows without a result that have attempts left, with the number of earlier
        attempts.
        """
        scored = {key_of(result) for result in self.results()}
        failures: dict[RolloutKey, int] = {}
        terminal = set[RolloutKey]()
        for failure in _rows(self.paths.failures):
            key = key_of(failure)
            failures[key] = failures.get(key, 0) + 1
            if failure.get(FAILURE_TERMINAL):
                terminal.add(key)
        rows = []
        for row in _rows(self.paths.materialized_inputs):
            key = key_of(row)
            attempts = failures.get(key, 0)
            if key not in scored | terminal and attempts < max_attempts:
                rows.append({**row, ATTEMPT_INDEX: attempts} if attempts else row)
        return rows


def _rows(path: Path) -> list[Any]:
    """Return the whole rows of a file; a line that a killed process cut off is left out."""
    if not path.exists():
        return []
    return [line.row for line in read_jsonl(path) if line.ended and not line.error]
