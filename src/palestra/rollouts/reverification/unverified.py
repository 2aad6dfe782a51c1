"""Responses whose verification failed: rows of a failures file, converted to rollouts to verify.

Of each unscored rollout, the last attempt with a response is used. Task fields that the failures
row lacks come from the materialized inputs. The file stays on disk; memory holds one offset per
row.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from palestra.errors import Outcome
from palestra.rollouts.results import RESPONSE, VERIFY_FIELDS, answer_in
from palestra.rollouts.reverification.task_rows import (
    IDENTITY,
    FoundTaskRows,
    TaskRows,
    digest_of,
)
from palestra.schema import (
    CREATE_PARAMS,
    FAILURE_CLASS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    Line,
    read_jsonl,
)

SUFFIX = "_failures.jsonl"
FAILURE_MARK = "_ng_failure"
"""How the keys begin that mark a row as a failure."""
REWARD = "reward"
Key = tuple[Any, Any]


def failures_beside(scored: Path) -> Path:
    """Return the path of the failures file for the run whose scored rows are at `scored`."""
    return scored.with_name(f"{scored.stem}{SUFFIX}")


def scored_beside(failures: Path) -> Path | None:
    """Return the path of the scored rows for the run whose failures file is `failures`; None when
    the name has another form.
    """
    stem = failures.name.removesuffix(SUFFIX)
    return failures.with_name(f"{stem}.jsonl") if stem and stem != failures.name else None


def holds_failures(path: Path) -> bool:
    """Whether the first row of a file is a failure."""
    try:
        first = next(read_jsonl(path), None)
    except OSError:
        return False
    row = None if first is None else first.row
    return isinstance(row, dict) and bool(row.get(FAILURE_CLASS))


@dataclass(frozen=True, slots=True)
class UnverifiedAnswers:
    """The rows of one failures file that can be verified. Create it with `found_in`."""

    path: Path
    failed: int
    """The number of unscored rollouts in the file."""
    digest: str
    needs_judge: bool
    """Whether the judge failed in one of the rows to verify, so that it has to be asked again."""
    _row_places: tuple[tuple[int, int], ...] = field(repr=False)
    """The line number and offset of each row to verify, in file order."""

    @classmethod
    def found_in(
        cls, path: Path, *, scored: Path | None, failure_classes: Collection[str] | None = None
    ) -> "UnverifiedAnswers":
        """Read the failures file, and the scored rows if they exist.

        `failure_classes`: only rollouts whose last failure is of these classes; None: of any class.
        Raises InputDataError: the failures file cannot be read.
        """
        digest = digest_of(path)
        last: dict[Key, tuple[int, int]] = {}
        unjudged: set[Key] = set()
        keys: dict[Key, None] = {}
        offset = 0
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                row = _row(raw)
                if row is None:
                    pass
                elif failure_classes is None or row[FAILURE_CLASS] in failure_classes:
                    keys[_key(row)] = None
                    if answer_in(row) is not None:
                        last[_key(row)] = number, offset
                        is_unjudged = row[FAILURE_CLASS] == Outcome.JUDGE_ERROR
                        (unjudged.add if is_unjudged else unjudged.discard)(_key(row))
                else:
                    keys.pop(_key(row), None)
                    last.pop(_key(row), None)
                offset += len(raw)
        is_there = scored is not None and scored.is_file()
        for line in read_jsonl(scored) if keys and scored is not None and is_there else ():
            if isinstance(line.row, dict):
                last.pop(_key(line.row), None)
                keys.pop(_key(line.row), None)
        needs_judge = not unjudged.isdisjoint(last)
        return cls(path, len(keys), digest, needs_judge, tuple(sorted(last.values())))

    def __len__(self) -> int:
        return len(self._row_places)

    def lines(self, tasks: TaskRows | FoundTaskRows | None) -> Iterator[Line]:
        """Yield the rollouts as lines. A rollout whose task is not found yields a line with an
        error.
        """
        with self.path.open("rb") as file:
            for number, offset in self._row_places:
                file.seek(offset)
                row = _row(file.readline())
                if row is None:
                    yield Line(number, None, f"{self.path} was changed while it was read")
                else:
                    yield _as_rollout(number, row, tasks)

    def summary(self) -> str:
        """Return a message for the user with the number of rows."""
        without = self.failed - len(self)
        why = "; {} more failed before the last answer (in the model, in a tool, at the deadline)"
        unanswered = why.format(without) if without else ""
        verb = "has" if len(self) == 1 else "have"
        return f"{len(self)} of the failed rollouts {verb} the model's answer{unanswered}"


def _as_rollout(number: int, failure: JsonObject, tasks: TaskRows | FoundTaskRows | None) -> Line:
    task = None if tasks is None else tasks.row_of_run(failure)
    verify_fields = failure.get(VERIFY_FIELDS)
    request_fields = verify_fields if isinstance(verify_fields, Mapping) else _own_task(failure)
    if task is None and CREATE_PARAMS not in request_fields:
        why = "its task row is missing: pass the materialized inputs of the run with --inputs"
        return Line(number, None, why)
    identity = {name: failure[name] for name in IDENTITY if name in failure}
    return Line(number, {**(task or {}), **request_fields, **identity, RESPONSE: failure[RESPONSE]})


def _own_task(failure: JsonObject) -> JsonObject:
    """Return the task fields of a failure that is the whole answer of an agent, as other tools
    record it; empty for another failure.
    """
    if CREATE_PARAMS not in failure:
        return {}
    return {
        name: value
        for name, value in failure.items()
        if not name.startswith(FAILURE_MARK) and name != REWARD
    }


def _row(raw: bytes) -> JsonDict | None:
    """Decode a failures row; None for an incomplete line or another kind of row."""
    if not raw.endswith(b"\n"):
        return None
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and FAILURE_CLASS in row else None


def _key(row: JsonObject) -> Key:
    return row.get(TASK_INDEX), row.get(ROLLOUT_INDEX)
