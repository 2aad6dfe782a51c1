"""Check one row of a dataset: whether it is usable, and the reasons if not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from palestra.config import is_secret_name, nearest
from palestra.datasets.problems import ValueProblem
from palestra.datasets.prompts import PromptTemplate
from palestra.datasets.request_models import DoorKeeper, RowEndpoint
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    JsonDict,
    JsonObject,
    Line,
    ResponseCreateParams,
    rejected_fields,
)
from palestra.settings import misspelt_parameters, no_text_in, not_a_parameter

_TEXT: Final = {"type": "string"}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_MAYBE_OBJECT: Final = {"type": ["object", "null"]}
_MAYBE_NUMBER: Final = {"type": ["number", "null"]}
# Small enough for any float to be a whole number exactly.
_MAYBE_WHOLE: Final = {"type": ["integer", "null"], "minimum": -(2**53), "maximum": 2**53}


def _object(required: list[str], **properties: Any) -> JsonDict:
    return {"type": "object", "required": required, "properties": properties}


def _tagged(kind: str, required: list[str], **properties: Any) -> JsonDict:
    return _object(["type", *required], type={"const": kind}, **properties)


_PART: Final = {
    "anyOf": [
        _tagged("input_text", ["text"], text=_TEXT),
        _tagged("input_image", [], image_url=_MAYBE_TEXT, file_id=_MAYBE_TEXT, detail=_MAYBE_TEXT),
        _tagged("output_text", ["text"], text=_TEXT, annotations={"type": "array"}),
    ]
}
_OF_AN_ITEM: Final = {"id": _MAYBE_TEXT, "status": _MAYBE_TEXT}
_MESSAGE: Final = _object(
    ["role", "content"],
    type={"const": "message"},
    role={"enum": ["user", "assistant", "system", "developer"]},
    content={"anyOf": [_TEXT, {"type": "array", "items": _PART}]},
    **_OF_AN_ITEM,
)
_CALL: Final = _tagged(
    "function_call",
    ["name", "arguments", "call_id"],
    name=_TEXT,
    arguments=_TEXT,
    call_id=_TEXT,
    **_OF_AN_ITEM,
)
_OUTPUT: Final = _tagged(
    "function_call_output", ["call_id", "output"], call_id=_TEXT, output=_TEXT, **_OF_AN_ITEM
)
_TOOL: Final = _tagged(
    "function",
    ["name"],
    name=_TEXT,
    parameters=_MAYBE_OBJECT,
    strict={"type": ["boolean", "null"]},
    description=_MAYBE_TEXT,
)

PLAIN_REQUEST: Final[JsonDict] = _object(
    ["input"],
    input={"anyOf": [_TEXT, {"type": "array", "items": {"anyOf": [_MESSAGE, _CALL, _OUTPUT]}}]},
    instructions=_MAYBE_TEXT,
    model=_MAYBE_TEXT,
    tools={"type": "array", "items": _TOOL},
    tool_choice={"type": ["string", "object", "null"]},
    parallel_tool_calls={"type": ["boolean", "null"]},
    max_output_tokens=_MAYBE_WHOLE,
    max_tool_calls=_MAYBE_WHOLE,
    temperature=_MAYBE_NUMBER,
    top_p=_MAYBE_NUMBER,
    top_logprobs=_MAYBE_WHOLE,
    metadata={"type": ["object", "null"], "additionalProperties": _MAYBE_TEXT},
    reasoning=_MAYBE_OBJECT,
    text=_MAYBE_OBJECT,
    include={"type": ["array", "null"], "items": _TEXT},
    background={"type": ["boolean", "null"]},
    previous_response_id=_MAYBE_TEXT,
    prompt=_MAYBE_OBJECT,
    service_tier=_MAYBE_TEXT,
    store={"type": ["boolean", "null"]},
    truncation=_MAYBE_TEXT,
    user=_MAYBE_TEXT,
    stream={"enum": [False, None]},
)


_CHAT: Final = "messages"
KNOWN_PARAMS: Final = frozenset(ResponseCreateParams.model_fields)


def missing_params(row: JsonObject) -> str:
    """Return the problem of a row without `responses_create_params`, with the key that is most likely
    meant to be it.
    """
    near = nearest(CREATE_PARAMS, map(str, row), cutoff=_MISSPELT)
    return f"no `{CREATE_PARAMS}`" + (f"; {near!r} is its nearest key" if near else "")


def misspelt_agent(row: JsonObject) -> Iterator[str]:
    """Yield the problem that a row names its agent under a key that is most likely meant to be
    `agent_ref`. Nothing would read it, and the row would go to the default agent.
    """
    if AGENT_REF in row:
        return
    references = [
        key for key, value in row.items() if isinstance(value, Mapping) and "name" in value
    ]
    if near := nearest(AGENT_REF, references, cutoff=_MISSPELT):
        yield f"no `{AGENT_REF}`; {near!r} is its nearest key"


_MISSPELT: Final = 0.85
"""The least similarity of a misspelt key of a row to the key that is meant."""
TOO_DEEP: Final = "nested too deeply"


def parameter_problems(params: JsonObject) -> Iterator[str]:
    """Yield what is wrong with a request's parameters, with JSON pointers."""
    for name, near in misspelt_parameters(params.keys()).items():
        yield f"/{CREATE_PARAMS}/{name} {not_a_parameter(near)}"
    for name in no_text_in(params.get("metadata")):
        yield f"/{CREATE_PARAMS}/metadata/{name}: Input should be a valid string, as all of metadata"
    try:
        ResponseCreateParams.model_validate(params)
    except ValidationError as error:
        for field in rejected_fields(params, error):
            has_chat = field.pointer == "/input" and "input" not in params and _CHAT in params
            of_chat = f"; {_CHAT!r} is its name in Chat Completions" if has_chat else ""
            is_secret = is_secret_name(field.pointer.rpartition("/")[2])
            yield ValueProblem(
                f"/{CREATE_PARAMS}{field.pointer}: {field.expected}{of_chat}",
                "" if is_secret else field.found,
            )


class RowCheck:
    """Checks that a row is valid JSON, fits the Responses API, and is accepted by the endpoints in
    `doors`.

    `prompt`: a template that rows are filled into later, so they need no input of their own.
    """

    def __init__(
        self, doors: Sequence[RowEndpoint] = (), *, prompt: PromptTemplate | None = None
    ) -> None:
        from jsonschema_rs import validator_for

        self._keeper = DoorKeeper(list(doors))
        self._prompt = prompt
        self._plain = validator_for(PLAIN_REQUEST)

    def passes(self, row: Any) -> bool:
        """Whether `row` has no problems."""
        try:
            params = row[CREATE_PARAMS]
        except (KeyError, TypeError, IndexError):
            return False
        try:
            if not self._plain.is_valid(params):
                ResponseCreateParams.model_validate(params)
                if no_text_in(params.get("metadata")):
                    return False
            admitted = self._keeper.admits(row)
        except (ValueError, RecursionError):  # of pydantic, or nested deeper than validators go
            return False
        return (
            admitted
            and not any(misspelt_agent(row))
            and (params.keys() <= KNOWN_PARAMS or not misspelt_parameters(params.keys()))
        )

    def problems(self, line: Line) -> Iterator[str]:
        """Yield all problems of a row, each with a JSON pointer."""
        if line.error:
            yield line.error
        elif not isinstance(line.row, Mapping):
            yield "not a JSON object"
        else:
            try:
                yield from self._of_row(line.row)
            except (ValueError, RecursionError):  # the validators' own: no model's is left by now
                yield TOO_DEEP

    def _of_row(self, row: JsonObject) -> Iterator[str]:
        params = row.get(CREATE_PARAMS)
        if params is None:
            yield missing_params(row)
        elif not isinstance(params, Mapping):
            yield f"/{CREATE_PARAMS}: should be an object"
        else:
            yield from parameter_problems(params)
        yield from misspelt_agent(row)
        yield from self._keeper.problems(row)
