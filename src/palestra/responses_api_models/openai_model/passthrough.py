"""What `openai_model` sends and reads: the Responses API as it is, less what is only ours."""

import re
import time
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from palestra.errors import Evidence, FieldProblem, ModelError, ModelRejectedRow, RowError
from palestra.responses_api_models.chat import json_setting
from palestra.schema import (
    IncompleteDetails,
    Response,
    ResponseCreateParams,
    set_fields,
)
from palestra.server import without_tokens
from palestra.transport import new_id

_OURS = ("extra_body", "chat_template_kwargs")
"""Keys of `metadata` that address the model server."""

_NO_ANSWERS = frozenset({"failed", "cancelled", "queued", "in_progress"})
"""Statuses of a response that holds no answer; the last two are of one made in the background."""

_OF_THE_ROW = re.compile(r"^(?:invalid|image|unsupported|empty|failed_to_download)_|policy|filter")
"""OpenAI's codes of what a request can never be answered to: `invalid_prompt`, `image_too_large`."""


def to_request(
    params: ResponseCreateParams, *, model: str, extra_body: Mapping[str, Any]
) -> dict[str, Any]:
    """The body to POST, which may hold objects of the schema; `model` is used when the row names
    none.

    Nulls are left out, because they mean "not set" in a row and some endpoints reject them.
    Raises `RowError` when the row's `metadata.extra_body` is no JSON object, or asks for a stream.
    """
    given = set_fields(params)
    asked = {key: value for key, value in given.items() if value is not None and key != "stream"}
    metadata = asked.pop("metadata", {})
    if isinstance(asked["input"], list):
        asked["input"] = [_without_tokens(item) for item in asked["input"]]
    of_the_row = json_setting(metadata, "extra_body")
    if of_the_row.get("stream"):
        expected = "no `stream`: an answer is read in one piece"
        raise RowError(
            f"/metadata/extra_body cannot be sent; expected: {expected}",
            evidence=Evidence(problems=(FieldProblem("/metadata/extra_body", expected),)),
        )
    request = {"model": model, **extra_body, **of_the_row, **asked}
    if kept := {key: value for key, value in metadata.items() if key not in _OURS}:
        request["metadata"] = kept
    return request


def _without_tokens(item: Any) -> dict[str, Any]:
    return without_tokens(set_fields(item) if isinstance(item, BaseModel) else item)


def read_response(body: bytes, *, model: str) -> Response:
    """The response in a body, unknown fields kept; `model` is what was asked for.

    A null where the protocol has a value (`id`, `tools`, a part of `usage`) is taken as absent.
    Raises ValueError when the body holds no response.
    """
    plain = orjson.loads(body)
    if not isinstance(plain, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one class for every unreadable body
    if "output" in plain:
        plain["id"] = plain.get("id") or new_id("resp_")
        plain["created_at"] = plain.get("created_at") or time.time()
        plain["model"] = plain.get("model") or model
    if plain.get("tools", ()) is None:
        del plain["tools"]
    if isinstance(usage := plain.get("usage"), dict):
        plain["usage"] = _counted(usage)
    return Response.model_validate(plain)


def _counted(usage: Mapping[str, Any]) -> dict[str, Any] | None:
    """A usage without nulls; None when it counts nothing."""
    given = {key: value for key, value in usage.items() if value is not None}
    for key, value in given.items():
        if isinstance(value, dict):
            given[key] = {name: inner for name, inner in value.items() if inner is not None}
    if not given:
        return None
    read, written = given.setdefault("input_tokens", 0), given.setdefault("output_tokens", 0)
    given.setdefault("total_tokens", read + written)
    return given


def failure_of(response: Response) -> ModelError | None:
    """The failure that a response says of itself, in the provider's words; None of an answer."""
    error = response.error
    if not error and response.status not in _NO_ANSWERS:
        return None
    about = f"the response of {response.model} is {response.status or 'failed'!r}"
    if not isinstance(error, dict):
        return ModelError(f"{about}: {error or 'it says no more'}")
    code = str(error.get("code") or "")
    said = ": ".join(filter(None, (code, str(error.get("message") or "")))) or repr(error)
    kind = ModelRejectedRow if _OF_THE_ROW.search(code) else ModelError
    return kind(f"{about}: {said}")


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
