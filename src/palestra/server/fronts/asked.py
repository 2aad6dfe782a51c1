"""What both fronts need: refusing, token ids, and parameters put together."""

from collections.abc import Mapping
from typing import NoReturn

from pydantic import ValidationError

from palestra.errors import Evidence, FieldProblem, RowError
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
    """Say what of a request cannot be served. Raises `RowError`."""
    raise RowError(
        f"{pointer} cannot be served; expected: {expected}",
        evidence=Evidence(problems=(FieldProblem(pointer, expected),)),
    )


def params_from(fields: JsonDict) -> ResponseCreateParams:
    """The fields as parameters. Raises `RowError` where a value has the wrong type."""
    values = {name: value for name, value in fields.items() if value is not None}
    try:
        return ResponseCreateParams.model_validate(values)
    except ValidationError as error:
        rejections = rejected_fields(values, error)
        problems = tuple(FieldProblem(field.pointer, field.sentence) for field in rejections)
        message = f"the request does not fit: {rejection_text(rejections)}"
        raise RowError(message, evidence=Evidence(problems=problems)) from None


def with_tokens(items: list[JsonDict], source: JsonObject) -> list[JsonDict]:
    """The items of one turn, the last one with the token ids of its message."""
    tokens = {name: source[name] for name in TURN_FIELDS if source.get(name) is not None}
    if not tokens or not items:
        return items
    return [*items[:-1], {**items[-1], **tokens}]


def unpacked(message: JsonObject) -> JsonDict:
    """An assistant message with its token ids where we put them.

    LiteLLM packs every field that it does not know into `provider_specific_fields`, both ways.
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
    """A message as an endpoint knows it: token ids are long, and nothing to it.

    Nor is a field that is there and null: clients send an answer back with all that were, and
    vLLM refuses them. Only content may be null, beside tool calls.
    """
    return {
        key: value
        for key, value in message.items()
        if key not in TURN_FIELDS and (value is not None or key == "content")
    }


def tokens_of(response: Response) -> JsonDict:
    """The token ids of a response's last turn, wherever among its items they are."""
    for item in reversed(response.output):
        token_lists = {name: getattr(item, name, None) for name in TURN_FIELDS}
        if token_lists["generation_token_ids"] is not None:
            return {name: value for name, value in token_lists.items() if value is not None}
    return {}


def thoughts_of(response: Response) -> str:
    """All reasoning of a response; blocks are parted by a blank line."""
    thoughts = (item for item in response.output if isinstance(item, Reasoning))
    return "\n\n".join(block for item in thoughts for block in blocks_of(item))
