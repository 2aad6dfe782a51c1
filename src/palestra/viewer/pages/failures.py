"""The failed attempts of a run as a tree, and what `palestra diagnose` says."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from palestra.api import diagnose
from palestra.doctor import Diagnosis
from palestra.errors import PalestraError
from palestra.schema import FAILURE_CLASS, FAILURE_LAYER, RunPaths, open_packed, with_compressed
from palestra.viewer.catalog import OpenRun
from palestra.viewer.index import IndexSnapshot, RunPart
from palestra.viewer.pages.stored import meaning_of
from palestra.viewer.pages.terms import term
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.base import NamedText
from palestra.viewer.replies.failures import FailureNode, FailureRow, FailureTree, FindingLine
from palestra.viewer.requests import PageRequest

MOST_ROWS: Final = 50
MESSAGE_CHARACTERS: Final = 1_000
LINES_BETWEEN_CHECKS: Final = 1_000
Level = Literal["class", "layer", "cause", "message"]
_LEVELS: Final[tuple[Level, ...]] = ("class", "layer", "cause", "message")


class _FailureLine(msgspec.Struct):
    """What the tree needs of a row of the failures file."""

    failure_class: Any = msgspec.field(default="", name=FAILURE_CLASS)
    layer: Any = msgspec.field(default="", name=FAILURE_LAYER)
    cause: Any = ""
    message: Any = ""
    attempt: Any = 1
    task: Any = msgspec.field(default=None, name="_ng_task_index")
    rollout: Any = msgspec.field(default=None, name="_ng_rollout_index")
    response: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    path: tuple[str, str, str, str]
    attempt: int
    task: Any
    rollout: Any
    kept: bool
    row: int
    scored: bool


def failures(request: PageRequest) -> FailureTree:
    """Answer the failed attempts by class, layer, cause and message."""
    opened = request.run
    snapshot = opened.snapshot
    attempts = list(_attempts(opened, snapshot, request.stop))
    diagnosis, problem = _diagnosis(opened)
    return FailureTree(
        nodes=_nodes(attempts, 0, ""),
        attempts=len(attempts),
        absent=problem or ("" if attempts else "No attempt failed."),
        findings=[] if diagnosis is None else list(finding_lines(diagnosis)),
        consequences=[] if diagnosis is None else list(diagnosis.consequences),
    )


def _attempts(opened: OpenRun, snapshot: IndexSnapshot, stop: ReadStop) -> Iterator[_FailedAttempt]:
    decode = msgspec.json.Decoder(_FailureLine).decode
    for output in opened.place.outputs:
        path = with_compressed(RunPaths(output).failures)
        if path is None:
            continue
        with open_packed(path) as file:
            for number, line in enumerate(file):
                if number % LINES_BETWEEN_CHECKS == 0:
                    stop.check()
                try:
                    fields = decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # the run page lists lines that cannot be read
                yield _failed_attempt(fields, snapshot)


def _failed_attempt(fields: _FailureLine, snapshot: IndexSnapshot) -> _FailedAttempt:
    task, rollout = fields.task, fields.rollout
    has_key = isinstance(task, int | str) and isinstance(rollout, int)
    row = snapshot.find(task, rollout) if has_key else None
    names = (fields.failure_class, fields.layer, fields.cause, fields.message)
    labels = [str(name or "") for name in names]
    return _FailedAttempt(
        (labels[0], labels[1], labels[2], labels[3][:MESSAGE_CHARACTERS]),
        fields.attempt if isinstance(fields.attempt, int) else 1,
        task if isinstance(task, int | str) else None,
        rollout if isinstance(rollout, int) else None,
        kept=bytes(memoryview(fields.response)[:1]) == b"{",
        row=-1 if row is None else row,
        scored=row is not None and snapshot.place(row, RunPart.RESULT) is not None,
    )


def _nodes(attempts: Sequence[_FailedAttempt], depth: int, query: str) -> list[FailureNode]:
    groups: dict[str, list[_FailedAttempt]] = {}
    for attempt in attempts:
        groups.setdefault(attempt.path[depth], []).append(attempt)
    nodes = [_node(name, group, depth, query) for name, group in groups.items()]
    return sorted(nodes, key=lambda node: (-node.attempts, node.name))


def _node(name: str, attempts: Sequence[_FailedAttempt], depth: int, query: str) -> FailureNode:
    level = _LEVELS[depth]
    is_leaf = level == "message"
    own_term = term(level, name) if name and not is_leaf else ""
    narrowed = " ".join(filter(None, [query, own_term]))
    cause, action = meaning_of(attempts[0].path[2], attempts[0].path[3]) if depth > 1 else ("", "")
    return FailureNode(
        level=level,
        name=name,
        attempts=len(attempts),
        rollouts=_rollouts(attempts),
        without_score=_rollouts(a for a in attempts if not a.scored),
        likely_cause=cause,
        next_action=action,
        query=narrowed,
        rows=[_row(attempt) for attempt in attempts[:MOST_ROWS]] if is_leaf else [],
        nodes=[] if is_leaf else _nodes(attempts, depth + 1, narrowed),
    )


def _rollouts(attempts: Iterable[_FailedAttempt]) -> int:
    return len({(attempt.task, attempt.rollout) for attempt in attempts})


def _row(attempt: _FailedAttempt) -> FailureRow:
    return FailureRow(
        task=attempt.task,
        rollout=attempt.rollout,
        attempt=attempt.attempt,
        row=attempt.row,
        kept=attempt.kept,
    )


def _diagnosis(opened: OpenRun) -> tuple[Diagnosis | None, str]:
    """Return what `palestra diagnose` says, or why it says nothing."""
    try:
        return diagnose(str(opened.place.path)), ""
    except PalestraError as error:
        return None, error.message


def finding_lines(diagnosis: Diagnosis) -> Iterator[FindingLine]:
    """Yield the findings of a diagnosis."""
    for finding in diagnosis.findings:
        row = finding.row
        yield FindingLine(
            layer=finding.layer.value,
            cause=finding.cause,
            severity=finding.severity.value,
            symptom=finding.symptom,
            likely_cause=finding.likely_cause,
            next_action=finding.next_action,
            evidence=[NamedText(name=q.where, value=q.text) for q in finding.evidence],
            task=None if row is None else row.task,
            rollout=None if row is None else row.rollout,
        )
