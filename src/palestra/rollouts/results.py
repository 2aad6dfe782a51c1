"""How one requested rollout ended, ready to be written down.

A failure whose verification failed keeps the model's answer, so that it can be verified again. A
result that an agent marked as none is a failure too.
"""

import shlex
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
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
    CREATE_PARAMS,
    EMPTY_ANSWER,
    FAILURE_CLASS,
    FAILURE_LAYER,
    FAILURE_TERMINAL,
    MAX_ROW_BYTES,
    NO_PERSIST,
    RETRIABLE,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    RolloutKey,
    encode_json,
    fields_of,
    finite_reward,
    hint_with,
    no_reward,
)
from palestra.system import shown
from palestra.transport import encoded_with, fields_of_request

RESPONSE: Final = "response"
VERIFY_FIELDS: Final = "verify_fields"
LOST_ANSWER: Final = "response_left_out"
"""Why a failures-file row has no `response` although the model gave one."""


def answer_in(row: JsonObject) -> JsonObject | None:
    """The model's answer that a failures-file row holds; None when it holds none."""
    response = row.get(RESPONSE)
    return response if isinstance(response, Mapping) and "output" in response else None


def asked_of_result(result: JsonObject) -> JsonDict | None:
    """What a result that is none tells of what was verified: not what the verifier made of it."""
    if result.get(RESPONSE) is None:
        return None
    return {name: result[name] for name in (CREATE_PARAMS, RESPONSE) if name in result}


def line_with_answer(failure_row: JsonObject, row: JsonObject, request: Any) -> bytes:
    """A failures-file row as JSON: `failure_row`, and of the verify request what `row` does not hold.

    A row that would be too long to be read again says so instead of holding the answer.
    """
    answer_fields = dict(_kept(row, fields_of_request(request)))
    if not answer_fields:
        return encode_json(failure_row)
    line = encoded_with(failure_row, answer_fields)
    if line is None:
        return encode_json({**failure_row, LOST_ANSWER: "it cannot be written as JSON"})
    if len(line) + 1 > MAX_ROW_BYTES:
        why = f"the row would have {len(line):,} bytes, and may have {MAX_ROW_BYTES:,}"
        return encode_json({**failure_row, LOST_ANSWER: why})
    return line


def _kept(row: JsonObject, request: JsonObject) -> Iterator[tuple[str, Any]]:
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
    """Whether `request_value`, which may hold objects, says what the row holds."""
    if row_value is request_value or row_value == request_value:
        return True
    try:
        return bool(orjson.loads(encode_json(request_value)) == row_value)
    except (TypeError, ValueError):
        return False


def reverify_command(output: Path, verified_by: str = "") -> str:
    """The command that verifies everything again that the run at `output` has answers to.

    `verified_by`: the arguments that name the environment.
    """
    reverified = output.with_name(f"{output.stem}_reverified.jsonl")
    words = ["palestra", "reverify", "--rollouts", shown(output), "--with-failures"]
    return " ".join([shlex.join([*words, "--output", shown(reverified)]), verified_by]).rstrip()


def has_answers(failures: Path) -> bool:
    """Whether a failures file holds answers of the model. Never raises for what is in it."""
    marked = f'"{RESPONSE}":'.encode()
    try:
        with failures.open("rb") as file:
            return any(marked in line for line in file)
    except OSError:
        return False


_MARKS: Final = (FAILURE_CLASS, FAILURE_TERMINAL, NO_PERSIST)
_BY_WORD: Final[Mapping[str, type[CallError]]] = {
    "judge": JudgeFailure,
    "timeout": DeadlineExceeded,
    "timed_out": DeadlineExceeded,
}
"""Words in classes of others' own: `judge_failed`, `sandbox_timeout`."""


class _Cancelled(InfraError):
    outcome = Outcome.CANCELLED


def raise_if_marked(fields: MutableMapping[str, Any]) -> None:
    """Raise the failure that a result says it is; marks that are not set are taken away."""
    name = fields.get(FAILURE_CLASS)
    if name:
        error = _error_of(str(name))(f"the result says that it failed: {name}{_why(fields)}")
        error.retriable = error.retriable and not fields.get(FAILURE_TERMINAL)
        raise error
    if fields.get(NO_PERSIST):
        raise InfraError(f"the result asks not to be kept ({NO_PERSIST}){_why(fields)}")
    for mark in _MARKS:
        fields.pop(mark, None)


def _error_of(name: str) -> type[CallError]:
    if name == Outcome.CANCELLED:
        return _Cancelled
    if name in set(Outcome):
        return class_of(Outcome(name))
    return next((kind for word, kind in _BY_WORD.items() if word in name.lower()), InfraError)


def _why(fields: JsonObject) -> str:
    messages = (
        fields.get(key) for key in ("message", "error_message", "error", "_ng_failure_message")
    )
    text = next((message for message in messages if isinstance(message, str) and message), "")
    return f": {excerpt(text)}" if text else ""


class Scored(msgspec.Struct, frozen=True):
    """A rollout with its reward. `line` is the result row as JSON, without a line break."""

    key: RolloutKey
    ending: ScoredEnding
    line: bytes

    @property
    def outcome(self) -> Outcome:
        """Its class, as a failure has one."""
        return self.ending.outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """One failed attempt. `terminal` means that no other attempt will follow.

    `spared`: it is not counted against its rollout.
    """

    key: RolloutKey
    outcome: Outcome
    layer: Layer
    message: str
    line: bytes
    terminal: bool
    spared: bool = False


_OF_VERIFYING = frozenset({Outcome.VERIFIER_ERROR, Outcome.JUDGE_ERROR})

WORTH_ANOTHER_ATTEMPT = frozenset(
    {Outcome.INFRA_ERROR, Outcome.POLICY_ERROR, Outcome.JUDGE_ERROR, Outcome.TIMEOUT}
)
"""Classes that another attempt may turn into a score. Code that raised would raise again."""

SPARED = "spared"
"""Field of a failures-file row: another rollout's code caused this failure, so it is not counted as
an attempt."""
ENDED_RUN = "ended_run"
"""Field of a failures-file row: what failed ended the whole collection (a rejected key). Such an
attempt is not held against its rollout, which runs again once that is mended."""


def scored(row: JsonObject, result: BaseModel | JsonObject) -> Scored:
    """The result row of a verify response.

    Raises VerifierError without a finite reward, and what the result says it failed of. Where that
    is its verification, with what was verified, as far as the result tells; what else fails
    leaves a trajectory that a model did not end, and whose reward would be none.
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
    identity = {TASK_INDEX: key.task, ROLLOUT_INDEX: key.rollout, AGENT_REF: row[AGENT_REF]}
    ending = ending_in(fields, reward)
    mark = {EMPTY_ANSWER: True} if ending.empty else {}
    return Scored(key, ending, line_of({**fields, "reward": reward, **identity, **mark}))


def checked(result: BaseModel | JsonObject) -> tuple[JsonDict, float]:
    """The fields of a verify response, and its reward. Raises as `scored`."""
    fields = fields_of(result) if isinstance(result, BaseModel) else dict(result)
    raise_if_marked(fields)
    return fields, reward_in(fields)


def reward_in(fields: JsonObject) -> float:
    """The reward of a verify response. Raises VerifierError without a finite one."""
    reward = finite_reward(fields.get("reward"))
    if reward is None:
        raise VerifierError(
            f"the verify response has reward {no_reward(fields.get('reward'))}",
            hint="verify must return a finite number as `reward`",
        )
    return reward


def line_of(fields: JsonObject) -> bytes:
    """A result row as JSON. Raises VerifierError when the verifier reported what is none.

    A row that is too long to be read again is none either.
    """
    try:
        line = encode_json(fields)
    except (TypeError, ValueError) as error:
        raise VerifierError(
            f"the verify response cannot be written as JSON: {error}",
            hint="report plain numbers, texts, lists and objects",
            cause=KnownCause.VERDICT_NOT_JSON,
        ) from error
    if len(line) + 1 > MAX_ROW_BYTES:
        raise VerifierError(
            f"the verify response has {len(line):,} bytes, and a row may have {MAX_ROW_BYTES:,}",
            hint="report less, or write what is long to a file and report its path",
            cause=KnownCause.VERDICT_NOT_JSON,
        )
    return line


def described(error: CallError) -> JsonDict:
    """A failure as the failures file tells it: class, layer, message, hint, evidence."""
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
    clean: JsonDict = readable(fields)
    return clean


def failed(
    row: JsonObject,
    error: CallError,
    *,
    attempt: int,
    max_attempts: int,
    started_at: float,
    elapsed_s: float,
    again: str = "",
    ended_run: bool = False,
    spared: bool = False,
) -> Failed:
    """The failures-file row of one attempt. `started_at`: seconds since the epoch.

    `again`: the command that verifies what the model has answered another time. `ended_run`: the
    collection ends with it, and the rollout has not ended. `spared`: see `Failed`.
    """
    outcome = error.outcome
    retriable = ended_run or (error.retriable and outcome in WORTH_ANOTHER_ATTEMPT)
    terminal = not (ended_run or spared) and (not retriable or attempt >= max_attempts)
    key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
    fields = described(error)
    if again and error.verify_request:
        fields["hint"] = hint_with(fields["hint"], again)
    line = line_with_answer(
        {
            TASK_INDEX: key.task,
            ROLLOUT_INDEX: key.rollout,
            AGENT_REF: row[AGENT_REF],
            "attempt": attempt,
            FAILURE_TERMINAL: terminal,
            RETRIABLE: retriable,
            **({ENDED_RUN: True} if ended_run else {}),
            **({SPARED: True} if spared else {}),
            **fields,
            "started_at": started_at,
            "elapsed_s": round(elapsed_s, 3),
        },
        row,
        error.verify_request,
    )
    return Failed(key, outcome, error.layer, fields["message"], line, terminal, spared)
