"""What a failures-file row keeps of the model's answer, so that it can be verified another time.

`response` is the trajectory as `/verify` got it; `verify_fields` what else the agent sent that the
materialized row does not hold as it is. The rest of the task is in the materialized inputs.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.schema import CREATE_PARAMS, MAX_ROW_BYTES, JsonDict, JsonObject, encode_json
from palestra.system import shown
from palestra.transport import encoded_with, fields_of_request

RESPONSE: Final = "response"
VERIFY_FIELDS: Final = "verify_fields"
LOST_ANSWER: Final = "response_left_out"
"""Why a failures-file row has no `response` although the model gave one."""


def answer_in(row: JsonObject) -> JsonObject | None:
    """The model's answer that a failures-file row holds; None when it holds none."""
    held = row.get(RESPONSE)
    return held if isinstance(held, Mapping) and "output" in held else None


def asked_of_result(result: JsonObject) -> JsonDict | None:
    """What a result that is none tells of what was verified: not what the verifier made of it."""
    if result.get(RESPONSE) is None:
        return None
    return {name: result[name] for name in (CREATE_PARAMS, RESPONSE) if name in result}


def line_with_answer(told: JsonObject, row: JsonObject, request: Any) -> bytes:
    """A failures-file row as JSON: `told`, and of the verify request what `row` does not hold.

    A row that would be too long to be read again says so instead of holding the answer.
    """
    kept = dict(_kept(row, fields_of_request(request)))
    if not kept:
        return encode_json(told)
    line = encoded_with(told, kept)
    if line is None:
        return encode_json({**told, LOST_ANSWER: "it cannot be written as JSON"})
    if len(line) + 1 > MAX_ROW_BYTES:
        why = f"the row would have {len(line):,} bytes, and may have {MAX_ROW_BYTES:,}"
        return encode_json({**told, LOST_ANSWER: why})
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


def _same(held: Any, sent: Any) -> bool:
    """Whether `sent`, which may hold objects, says what the row holds."""
    if held is sent or held == sent:
        return True
    try:
        return bool(orjson.loads(encode_json(sent)) == held)
    except (TypeError, ValueError):
        return False


def reverify_command(output: Path, verified_by: str = "") -> str:
    """The command that verifies everything again that the run at `output` has answers to.

    `verified_by`: the arguments that name the environment.
    """
    made = output.with_name(f"{output.stem}_reverified.jsonl")
    words = ["palestra", "reverify", "--rollouts", shown(output), "--with-failures"]
    return " ".join([shlex.join([*words, "--output", shown(made)]), verified_by]).rstrip()


def has_answers(failures: Path) -> bool:
    """Whether a failures file holds answers of the model. Never raises for what is in it."""
    marked = f'"{RESPONSE}":'.encode()
    try:
        with failures.open("rb") as file:
            return any(marked in line for line in file)
    except OSError:
        return False
