"""The result of a requested rollout, in the form that is written to file.

When verification failed, the failure row keeps the model's response, so that it can be verified
again. A verify response that an agent marked as failed is a failure too.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import orjson
from pydantic import BaseModel

from palestra.engine import ScoredEnding, ending_in
from palestra.errors import (
    CallError,
    DeadlineExceeded,
    InfraError,
    JudgeFailure,
    KnownCause,
    Layer,
    Outcome,
    VerifierError,
    class_of,
    excerpt,
    readable,
)
from palestra.schema import (
    AGENT_REF,
    ATTEMPT_INDEX,
    CREATE_PARAMS,
    EMPTY_ANSWER,
    FAILURE_CLASS,
    FAILURE_JUDGE_ERROR,
    FAILURE_LAYER,
    FAILURE_TERMINAL,
    JUDGE_QUESTION,
    MAX_ROW_BYTES,
    NO_PERSIST,
    RETRIABLE,
    RETRIABLE_CLASSES,
    REVERIFY_COMMAND,
    REWARD_ADVICE,
    ROLLOUT_INDEX,
    SKILLS_REF,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    ReverifyCommand,
    RolloutKey,
    RunPaths,
    encode_json,
    fields_of,
    may_verify_again,
    reward_problem,
)
from palestra.settings import CollectSettings
from palestra.system import shown
from palestra.transport import encoded_with, fields_of_request

RESPONSE: Final = "response"
VERIFY_FIELDS: Final = "verify_fields"
LOST_ANSWER: Final = "response_left_out"
"""The field of a failures-file row that states why the model's response is missing from it."""


def answer_in(row: JsonObject) -> JsonObject | None:
    """Return the model's response in a failures-file row; None when the row has none."""
    response = row.get(RESPONSE)
    return response if isinstance(response, Mapping) and "output" in response else None


def asked_of_result(result: JsonObject) -> JsonDict | None:
    """Return the parts of a failed result that were the verifier's input, without the verifier's
    output; None without a response.
    """
    if result.get(RESPONSE) is None:
        return None
    return {name: result[name] for name in (CREATE_PARAMS, RESPONSE) if name in result}


def line_with_answer(failure_row: JsonObject, row: JsonObject, request: Any) -> bytes:
    """Return a failures-file row as JSON: `failure_row`, plus the fields of the verify request that
    `row` lacks.

    When the line would be too long to be read back, it contains the reason instead of the response.
    """
    answer_fields = dict(_kept_fields(row, fields_of_request(request)))
    if not answer_fields:
        return encode_json(failure_row)
    line = encoded_with(failure_row, answer_fields)
    if line is None:
        return encode_json({**failure_row, LOST_ANSWER: "it cannot be written as JSON"})
    if len(line) + 1 > MAX_ROW_BYTES:
        why = f"the row would have {len(line):,} bytes; the limit is {MAX_ROW_BYTES:,}"
        return encode_json({**failure_row, LOST_ANSWER: why})
    return line


def _kept_fields(row: JsonObject, request: JsonObject) -> Iterator[tuple[str, Any]]:
    if request.get(RESPONSE) is None:
        return
    yield RESPONSE, request[RESPONSE]
    others = {
        name: value
        for name, value in request.items()
        if name != RESPONSE and not _same(row.get(name), value)
    }
    if others:
        yield VERIFY_FIELDS, others


def _same(row_value: Any, request_value: Any) -> bool:
    """Whether `request_value`, which may contain model objects, equals the row's value as JSON."""
    if row_value is request_value or row_value == request_value:
        return True
    try:
        return bool(orjson.loads(encode_json(request_value)) == row_value)
    except (TypeError, ValueError):
        return False


def reverify_command(settings: CollectSettings) -> ReverifyCommand:
    """Return the command that verifies all responses of the run again."""
    verified_by = settings.verified_by
    options = shlex.join(options_of_reverify(settings.output_jsonl_fpath))
    words = (settings.reverify_words, options, verified_by.text)
    return ReverifyCommand(
        " ".join(filter(None, words)),
        needs_session=verified_by.needs_session,
        names_judge=verified_by.names_judge,
    )


def options_of_reverify(
    output: Path, *, reverified: Path | None = None, spell: Callable[[Path], str] = shown
) -> list[str]:
    """Return the options that verify all responses of the run with this output again.

    `reverified`: where the new rows go; None: the first name for them, used or not. `spell`: how the
    command names a path.
    """
    reverified = reverified or RunPaths(output).reverified
    return ["--rollouts", spell(output), "--with-failures", "--output", spell(reverified)]


def has_answers(failures: Path) -> bool:
    """Whether a failures file contains model responses. Never raises because of the file's
    contents.
    """
    marked = f'"{RESPONSE}":'.encode()
    try:
        with failures.open("rb") as file:
            return any(marked in line for line in file)
    except OSError:
        return False


_MARKS: Final = (FAILURE_CLASS, FAILURE_TERMINAL, FAILURE_JUDGE_ERROR, NO_PERSIST)
_BY_WORD: Final[Mapping[str, type[CallError]]] = {
    "judge": JudgeFailure,
    "timeout": DeadlineExceeded,
    "timed_out": DeadlineExceeded,
}
"""Words in the failure classes of other tools, such as `judge_failed` or `sandbox_timeout` -> the
error class."""


class _Cancelled(InfraError):
    outcome = Outcome.CANCELLED


def raise_if_marked(fields: MutableMapping[str, Any]) -> None:
    """Raise the failure that the result is marked with. Without a failure, remove the unset marks
    from `fields`.
    """
    name = fields.get(FAILURE_CLASS)
    if name:
        error = _error_of(str(name))(f"the result says that it failed: {name}{_why(fields)}")
        error.retriable = error.retriable and not fields.get(FAILURE_TERMINAL)
        raise error
    if fields.get(NO_PERSIST):
        raise InfraError(
            f"the agent marked this result as not to be stored ({NO_PERSIST}){_why(fields)}"
        )
    for mark in _MARKS:
        fields.pop(mark, None)


def _error_of(name: str) -> type[CallError]:
    if name == Outcome.CANCELLED:
        return _Cancelled
    if name in set(Outcome):
        return class_of(Outcome(name))
    return next((kind for word, kind in _BY_WORD.items() if word in name.lower()), InfraError)


def _why(fields: JsonObject) -> str:
    keys = ("message", "error_message", "error", "_ng_failure_message", FAILURE_JUDGE_ERROR)
    messages = (fields.get(key) for key in keys)
    text = next((message for message in messages if isinstance(message, str) and message), "")
    return f": {excerpt(text)}" if text else ""


class Scored(msgspec.Struct, frozen=True):
    """A rollout with a reward. `line`: the result row as JSON, without a line break."""

    key: RolloutKey
    ending: ScoredEnding
    line: bytes

    @property
    def outcome(self) -> Outcome:
        """The rollout's outcome; `FailedRow` has the same attribute."""
        return self.ending.outcome


@dataclass(frozen=True, slots=True)
class FailedRow:
    """One failed attempt. `terminal`: no other attempt follows.

    `spared`: the failure does not count as an attempt.
    """

    key: RolloutKey
    outcome: Outcome
    layer: Layer
    message: str
    line: bytes
    terminal: bool
    spared: bool = False


_OF_VERIFYING = frozenset({Outcome.VERIFIER_ERROR, Outcome.JUDGE_ERROR})

SPARED = "spared"
"""The field of a failures-file row that marks a failure caused by another rollout's code. It does
not count as an attempt."""
ENDED_RUN = "ended_run"
"""The field of a failures-file row that marks a failure which ended the whole collection (a
rejected API key). It does not count as an attempt, and the rollout runs again when the run is
resumed."""


def scored(row: JsonObject, result: BaseModel | JsonObject) -> Scored:
    """Return the result row for a verify response.

    Raises VerifierError: the reward is missing or not finite. When the result is marked as failed,
    raises that failure. A verification failure keeps the verify request if the result contains it.
    Other failures do not: the model did not finish the trajectory, so its reward would be
    meaningless.
    """
    fields = fields_of(result) if isinstance(result, BaseModel) else dict(result)
    try:
        return _scored(row, fields)
    except CallError as error:
        # Empty: nor is there any, whatever the agent had verified before it called this a failure.
        error.verify_request = asked_of_result(fields) if error.outcome in _OF_VERIFYING else {}
        raise


def _scored(row: JsonObject, fields: JsonDict) -> Scored:
    raise_if_marked(fields)
    reward = reward_in(fields)
    key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
    ending = ending_in(fields, reward)
    mark = {EMPTY_ANSWER: True} if ending.empty else {}
    return Scored(key, ending, line_of({**fields, "reward": reward, **_identity(row), **mark}))


def _identity(row: JsonObject) -> JsonDict:
    """Return the fields of a row that its result repeats: its indices, its agent and the skills."""
    names = (TASK_INDEX, ROLLOUT_INDEX, AGENT_REF, ATTEMPT_INDEX, SKILLS_REF)
    return {name: row[name] for name in names if name in row}


def checked(result: BaseModel | JsonObject) -> tuple[JsonDict, float]:
    """Return the fields and the reward of a verify response. Raises the errors of `scored`."""
    fields = fields_of(result) if isinstance(result, BaseModel) else dict(result)
    raise_if_marked(fields)
    return fields, reward_in(fields)


def reward_in(fields: JsonObject) -> float:
    """Return the reward of a verify response. Raises VerifierError: the reward is missing, or it or
    one of its components is not finite.
    """
    if problem := reward_problem(fields):
        raise VerifierError(f"the verify response has {problem}", hint=REWARD_ADVICE)
    return float(fields["reward"])


def line_of(fields: JsonObject) -> bytes:
    """Return a result row as JSON. Raises VerifierError: the verifier returned values that are not
    JSON, or the row is too long to be read back.
    """
    try:
        line = encode_json(fields)
    except (TypeError, ValueError) as error:
        raise VerifierError(
            f"the verify response cannot be written as JSON: {error}",
            hint="return plain numbers, texts, lists and objects from verify",
            cause=KnownCause.VERDICT_NOT_JSON,
        ) from error
    if len(line) + 1 > MAX_ROW_BYTES:
        raise VerifierError(
            f"the verify response has {len(line):,} bytes; the limit of a row is {MAX_ROW_BYTES:,}",
            hint="return less data from verify, or write long data to a file and return its path",
            cause=KnownCause.VERDICT_NOT_JSON,
        )
    return line


def described(error: CallError) -> JsonDict:
    """Return a failure in the form of the failures file: class, layer, message, hint, evidence."""
    evidence = error.evidence
    fields: JsonDict = {
        FAILURE_CLASS: error.outcome.value,
        FAILURE_LAYER: error.layer.value,
        **({"cause": error.cause.value} if error.cause else {}),
        "message": error.message,
        "hint": error.hint,
        "hops": [
            {"server": hop.server, "url": hop.url, "status": hop.status, "body": hop.body}
            for hop in evidence.hops
        ],
    }
    if evidence.problems:
        fields["problems"] = [
            {"pointer": p.pointer, "expected": p.expected} for p in evidence.problems
        ]
    if evidence.traceback:
        fields["traceback"] = evidence.traceback
    if evidence.judge_question:
        fields[JUDGE_QUESTION] = evidence.judge_question
    clean: JsonDict = readable(fields)
    return clean


def _with_judge(hint: str, error: CallError) -> str:
    """Return the hint of a failed verification; that of a judge's endpoint says that the command has
    the judge's settings of the failed run.
    """
    hops = error.evidence.hops
    if error.layer is not Layer.MODEL or not hops:
        return hint
    server = hops[-1].server
    advice = (
        f"if a setting of {server} is wrong, correct it in the command that verifies again, too"
    )
    return f"{hint}; {advice}" if hint else advice


def failed(
    row: JsonObject,
    error: CallError,
    *,
    attempt: int,
    max_attempts: int,
    started_at: float,
    elapsed_s: float,
    reverify_command: ReverifyCommand | None = None,
    ended_run: bool = False,
    spared: bool = False,
    reported: JsonObject = MappingProxyType({}),
) -> FailedRow:
    """Return the failures-file row of one attempt. `started_at`: seconds since the epoch.

    `reverify_command`: the command that verifies the model's response again. `ended_run`: the
    failure ended the whole collection, so the rollout itself has not ended. `spared`: see
    `FailedRow`. `reported`: what the result reports beside its failure.
    """
    outcome = error.outcome
    retriable = ended_run or (error.retriable and outcome in RETRIABLE_CLASSES)
    terminal = not (ended_run or spared) and (not retriable or attempt >= max_attempts)
    key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
    fields = described(error)
    if reverify_command and error.verify_request and may_verify_again(outcome):
        fields["hint"] = _with_judge(fields["hint"], error)
        fields[REVERIFY_COMMAND] = reverify_command.as_json()
    line = line_with_answer(
        {
            **_identity(row),
            "attempt": attempt,
            FAILURE_TERMINAL: terminal,
            RETRIABLE: retriable,
            **({ENDED_RUN: True} if ended_run else {}),
            **({SPARED: True} if spared else {}),
            **fields,
            **reported,
            "started_at": started_at,
            "elapsed_s": round(elapsed_s, 3),
        },
        row,
        error.verify_request,
    )
    return FailedRow(key, outcome, error.layer, fields["message"], line, terminal, spared)
