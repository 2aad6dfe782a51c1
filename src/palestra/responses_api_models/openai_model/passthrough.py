"""What `openai_model` sends and reads: the Responses API as it is, less what is only ours."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from palestra.responses_api_models.chat import json_setting
from palestra.schema import IncompleteDetails, Response, ResponseCreateParams, set_fields

_OURS = ("extra_body", "chat_template_kwargs")
"""Keys of `metadata` that address the model server."""

_TOKEN_IDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


def to_request(
    params: ResponseCreateParams, *, model: str, extra_body: Mapping[str, Any]
) -> dict[str, Any]:
    """The body to POST, which may hold objects of the schema; `model` is used when the row names
    none.

    Nulls are left out, because they mean "not set" in a row and some endpoints reject them.
    Raises `RowError` when the row's `metadata.extra_body` is no JSON object.
    """
    given = set_fields(params)
    asked = {key: value for key, value in given.items() if value is not None and key != "stream"}
    metadata = asked.pop("metadata", {})
    if isinstance(asked["input"], list):
        asked["input"] = [_without_token_ids(item) for item in asked["input"]]
    request = {"model": model, **extra_body, **json_setting(metadata, "extra_body"), **asked}
    if kept := {key: value for key, value in metadata.items() if key not in _OURS}:
        request["metadata"] = kept
    return request


def _without_token_ids(item: Any) -> dict[str, Any]:
    fields = set_fields(item) if isinstance(item, BaseModel) else item
    return {key: value for key, value in fields.items() if key not in _TOKEN_IDS}


def read_response(body: bytes) -> Response:
    """The response in a body, unknown fields kept. Raises ValueError when it holds none.

    A null where the protocol has a value (`tools`, a part of `usage`) is taken as absent.
    """
    plain = orjson.loads(body)
    if not isinstance(plain, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one class for every unreadable body
    if plain.get("tools", ()) is None:
        del plain["tools"]
    if isinstance(usage := plain.get("usage"), dict):
        plain["usage"] = {key: value for key, value in usage.items() if value is not None}
    return Response.model_validate(plain)


def cut_at_limit(response: Response, request: Mapping[str, Any]) -> Response:
    """`response`, marked as incomplete when it used up the tokens that `request` allowed.

    llama.cpp says `completed` of an answer that it cut off there.
    """
    limit, usage = request.get("max_output_tokens"), response.usage
    said_to_be_whole = response.status == "completed" and response.incomplete_details is None
    if not said_to_be_whole or not isinstance(limit, int) or usage is None:
        return response
    if usage.output_tokens < limit:
        return response
    return response.model_copy(
        update={
            "status": "incomplete",
            "incomplete_details": IncompleteDetails(reason="max_output_tokens"),
        }
    )
