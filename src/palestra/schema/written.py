"""Responses written by hand: what a perfect model would say, and what tests let a model say."""

from collections.abc import Mapping
from typing import Any

from palestra.schema.encoding import encode_json
from palestra.schema.items import FunctionCall, OutputItem, OutputMessage, OutputText
from palestra.schema.responses import Response
from palestra.schema.unchecked import maker

_make_part = maker(OutputText)
_make_message = maker(OutputMessage)
_make_call = maker(FunctionCall)


def said(text: str) -> OutputMessage:
    """A message of the model; any text at all, also one that could not be sent."""
    part = _make_part({"text": text, "type": "output_text", "annotations": []})
    given = {"id": "msg_written", "role": "assistant", "content": [part], "type": "message"}
    return _make_message({**given, "status": "completed"})


UNNAMED_CALL = "call_1"
"""The id of a call that was given none; a scripted model numbers such calls."""


def called(
    name: str, arguments: Mapping[str, Any] | str = "{}", call_id: str = UNNAMED_CALL
) -> FunctionCall:
    """A call of a tool; `arguments` as an object, or as the text that a model wrote."""
    text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    given = {"name": name, "arguments": text, "call_id": call_id, "type": "function_call"}
    return _make_call(given)


def response_of(*output: OutputItem | str, model: str = "written") -> Response:
    """A response with these items; a text is a message."""
    items = [said(item) if isinstance(item, str) else item for item in output]
    return Response.model_construct(
        id="resp_written",
        created_at=0.0,
        model=model,
        object="response",
        output=items,
        status="completed",
    )
