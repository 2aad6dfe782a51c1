"""Requests that are certainly right, recognized by a compiled schema at a tenth of the cost.

`PLAIN_REQUEST` describes less than what `ResponseCreateParams` takes: whatever passes here, passes
there. What does not pass may be right or wrong, and only the model itself can say.
"""

from typing import Any, Final

from palestra.schema import JsonDict

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
    metadata=_MAYBE_OBJECT,
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
