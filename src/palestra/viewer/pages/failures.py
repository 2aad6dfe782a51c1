"""The failed attempts of a run as a tree, and what `palestra diagnose` says."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from palestra.analysis import split_row
from palestra.api import diagnose
from palestra.causes import FailureMeanings, Signature
from palestra.doctor import Diagnosis
from palestra.errors import PalestraError
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_LAYER,
    REVERIFY_COMMAND,
    ReverifyCommand,
    RunPaths,
    command_of_hint,
    open_packed,
    the_command,
    with_compressed,
)
from palestra.viewer.catalog import OpenRun
from palestra.viewer.conversation import decoded
from palestra.viewer.index import IndexSnapshot, RunPart, read_row
from palestra.viewer.pages.meanings import cause_and_action
from palestra.viewer.pages.terms import term
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.base import NamedText
from palestra.viewer.replies.failures import FailureNode, FailureRow, FailureTree, FindingLine
from palestra.viewer.requests import PageRequest

MOST_ROWS: Final = 50
MOST_MESSAGES: Final = 100
"""The most frequent messages of a cause are shown; to explain each takes some milliseconds."""
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
    hint: Any = ""
    reverify: Any = msgspec.field(default=None, name=REVERIFY_COMMAND)
    hops: Any = None
    response: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(_FailureLine).decode
_FIELDS: Final = msgspec.structs.fields(_FailureLine)


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    path: tuple[str, str, str, str]
    """Class, layer, cause and message; layer and cause are those of the doctor's table where it
    knows the failure, as in the index."""
    signature: Signature | None
    hint: str
    reverify: ReverifyCommand | None
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
        nodes=_nodes(attempts, 0, "", opened.advice(), request.stop),
        attempts=len(attempts),
        absent=problem or ("" if attempts else "No attempt failed."),
        findings=[] if diagnosis is None else list(finding_lines(diagnosis)),
        consequences=[] if diagnosis is None else list(diagnosis.consequences),
    )


def _attempts(opened: OpenRun, snapshot: IndexSnapshot, stop: ReadStop) -> Iterator[_FailedAttempt]:
    meanings = FailureMeanings()
    for line in _lines(opened.place.outputs, snapshot, stop):
        fields = _failure_line(line)
        if fields is not None:  # the run page lists lines that cannot be read
            yield _failed_attempt(fields, snapshot, meanings)


def _lines(outputs: Sequence[Path], snapshot: IndexSnapshot, stop: ReadStop) -> Iterator[bytes]:
    """Yield the rows of all failed attempts."""
    failure_files = {output: with_compressed(RunPaths(output).failures) for output in outputs}
    for path in filter(None, failure_files.values()):
        with open_packed(path) as file:
            for number, line in enumerate(file):
                if number % LINES_BETWEEN_CHECKS == 0:
                    stop.check()
                yield line
    others = {output for output, path in failure_files.items() if path is None}
    if others:
        yield from _outcome_lines(others, snapshot, stop)


def _outcome_lines(
    outputs: Collection[Path], snapshot: IndexSnapshot, stop: ReadStop
) -> Iterator[bytes]:
    """Yield the failed attempts that stand among the results of outputs: outcomes of training."""
    for row in snapshot.rollouts.select("has:class").tolist():
        stop.check()
        for row_place in snapshot.attempts(row):
            if row_place.path in outputs:
                yield read_row(row_place)


def _failure_line(line: bytes) -> _FailureLine | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):  # Python's own JSON: NaN, lone surrogates
        fields = split_row(line)
    if fields is None or not fields.get(FAILURE_CLASS):
        return None
    labels = {field.name: fields.get(field.encode_name) for field in _FIELDS}
    response = labels.pop("response")
    values = {name: decoded(bytes(raw)) for name, raw in labels.items() if raw is not None}
    return _FailureLine(**values, response=msgspec.Raw(b"null") if response is None else response)


def _failed_attempt(
    fields: _FailureLine, snapshot: IndexSnapshot, meanings: FailureMeanings
) -> _FailedAttempt:
    task, rollout = fields.task, fields.rollout
    has_key = isinstance(task, int | str) and isinstance(rollout, int)
    row = snapshot.find(task, rollout) if has_key else None
    names = (fields.failure_class, fields.layer, fields.cause, fields.message)
    kind, layer, cause, message = (str(name or "") for name in names)
    signature = meanings.of(cause, fields.hops, message)
    if signature is not None:
        layer, cause = signature.layer.value, signature.cause
    return _FailedAttempt(
        (kind, layer, cause, message[:MESSAGE_CHARACTERS]),
        signature,
        fields.hint if isinstance(fields.hint, str) else "",
        ReverifyCommand.of(fields.reverify) or command_of_hint(fields.hint),
        fields.attempt if isinstance(fields.attempt, int) else 1,
        task if isinstance(task, int | str) else None,
        rollout if isinstance(rollout, int) else None,
        kept=bytes(memoryview(fields.response)[:1]) == b"{",
        row=-1 if row is None else row,
        scored=row is not None and snapshot.place(row, RunPart.RESULT) is not None,
    )


def _nodes(
    attempts: Sequence[_FailedAttempt],
    depth: int,
    query: str,
    advice: Callable[[str], str],
    stop: ReadStop,
) -> list[FailureNode]:
    groups: dict[str, list[_FailedAttempt]] = {}
    for attempt in attempts:
        groups.setdefault(attempt.path[depth], []).append(attempt)
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    chosen = largest[:MOST_MESSAGES] if _LEVELS[depth] == "message" else largest
    return [_node(name, group, depth, query, advice, stop) for name, group in chosen]


def _node(
    name: str,
    attempts: Sequence[_FailedAttempt],
    depth: int,
    query: str,
    advice: Callable[[str], str],
    stop: ReadStop,
) -> FailureNode:
    stop.check()
    level = _LEVELS[depth]
    is_leaf = level == "message"
    narrowed = query if is_leaf else f"{query} {term(level, name) if name else ''}".strip()
    cause, action = _meaning(attempts, advice) if depth > 1 else ("", "")
    nodes = [] if is_leaf else _nodes(attempts, depth + 1, narrowed, advice, stop)
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
        nodes=nodes,
        others=0 if is_leaf else len(attempts) - sum(node.attempts for node in nodes),
    )


def _meaning(attempts: Sequence[_FailedAttempt], advice: Callable[[str], str]) -> tuple[str, str]:
    """Return the likely cause and the next action, where all attempts have the same."""
    hints = {attempt.hint for attempt in attempts}
    hint = hints.pop() if len(hints) == 1 else ""
    command = the_command(set(filter(None, (attempt.reverify for attempt in attempts))))
    first = attempts[0]
    return cause_and_action(first.signature, first.path[-1], hint, command, advice)


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
        return diagnose(opened.place.argument), ""
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
