"""Functions that both fronts use: rejecting requests, token ids, and building parameters."""

from collections.abc import Mapping
from typing import NoReturn

from pydantic import ValidationError

from palestra.errors import CallEvidence, FieldProblem, RowError
from palestra.schema import (
    TURN_FIELDS,
    JsonDict,
    JsonObject,
    Reasoning,
    Response,
    ResponseCreateParams,
    blocks_of,
    rejected_fields,
    rejection_text,
)


def refuse(pointer: str, expected: str) -> NoReturn:
    """Raise `RowError`: the request's field at `pointer` cannot be served. `expected`: what is
    allowed.
    """
    raise RowError(
        f"{pointer} cannot be served; expected: {expected}",
        evidence=CallEvidence(problems=(FieldProblem(pointer, expected),)),
    )


def params_from(fields: JsonDict) -> ResponseCreateParams:
    """Return the fields as request parameters. Raises `RowError`: a value has the wrong type."""
    values = {name: value for name, value in fields.items() if value is not None}
    try:
        return ResponseCreateParams.model_validate(values)
    except ValidationError as error:
        rejections = rejected_fields(values, error)
        problems = tuple(FieldProblem(field.pointer, field.sentence) for field in rejections)
        message = f"the request does not fit: {rejection_text(rejections)}"
        raise RowError(message, evidence=CallEvidence(problems=problems)) from None


def with_tokens(items: list[JsonDict], source: JsonObject) -> list[JsonDict]:
    """Return the items of one turn, with the message's token ids added to the last item."""
    tokens = {name: source[name] for name in TURN_FIELDS if source.get(name) is not None}
    if not tokens or not items:
        return items
    return [*items[:-1], {**items[-1], **tokens}]


def unpacked(message: JsonObject) -> JsonDict:
    """Return an assistant message with its token ids moved to their usual fields.

    LiteLLM puts unknown fields into `provider_specific_fields`, in requests and in answers.
    """
    packed = message.get("provider_specific_fields")
    unpacked_message = {
        key: value for key, value in message.items() if key != "provider_specific_fields"
    }
    if isinstance(packed, Mapping):
        for name in TURN_FIELDS:
            if unpacked_message.get(name) is None and packed.get(name) is not None:
                unpacked_message[name] = packed[name]
    return unpacked_message


def without_tokens(message: JsonObject) -> JsonDict:
    """Return a message without the token ids, which are long and unknown to an endpoint.

    Null fields are removed too: clients send an answer back with all its null fields, and vLLM
    rejects them. Only `content` may be null, next to tool calls.
    """
    return {
        key: value
        for key, value in message.items()
        if key not in TURN_FIELDS and (value is not None or key == "content")
    }


def tokens_of(response: Response) -> JsonDict:
    """Return the token ids of a response's last turn, from whichever item has them."""
    for item in reversed(response.output):
        token_lists = {name: getattr(item, name, None) for name in TURN_FIELDS}
        if token_lists["generation_token_ids"] is not None:
            return {name: value for name, value in token_lists.items() if value is not None}
    return {}


def thoughts_of(response: Response) -> str:
    """Return all reasoning text of a response; blocks are separated by a blank line."""
    thoughts = (item for item in response.output if isinstance(item, Reasoning))
    return "\n\n".join(block for item in thoughts for block in blocks_of(item))
