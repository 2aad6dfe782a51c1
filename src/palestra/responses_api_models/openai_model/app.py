"""`openai_model`: a model server for an endpoint that implements the Responses API itself."""

import re
import time
from functools import cached_property
from typing import Any

import orjson
from pydantic import BaseModel, SecretStr

from palestra.errors import (
    CallEvidence,
    FieldProblem,
    Hop,
    ModelError,
    ModelRejectedRow,
    RowError,
    excerpt,
)
from palestra.responses_api_models.chat import (
    ContextOverflow,
    EndpointConfig,
    Upstream,
    check_endpoint,
    is_context_overflow,
    json_setting,
    overflow_response,
)
from palestra.schema import (
    IncompleteDetails,
    JsonDict,
    JsonObject,
    Response,
    ResponseCreateParams,
    set_fields,
)
from palestra.server import EndpointFacts, ModelServer, Session, without_tokens
from palestra.transport import new_id

_TEMPLATE = "chat_template_kwargs"
_OURS = ("extra_body", _TEMPLATE)
"""Keys of `metadata` that are meant for the model server: they become fields of the request."""

_NO_ANSWERS = frozenset({"failed", "cancelled", "queued", "in_progress"})
"""Statuses of a response without an answer; `queued` and `in_progress` belong to background
responses."""

_OF_THE_ROW = re.compile(r"^(?:invalid|image|unsupported|empty|failed_to_download)_|policy|filter")
"""OpenAI's error codes for a request that can never succeed, such as `invalid_prompt` or
`image_too_large`."""


def to_request(params: ResponseCreateParams, *, model: str, extra_body: JsonObject) -> JsonDict:
    """Return the body to POST, which may contain schema objects. `model` is used when the row names
    none.

    Nulls are left out, because they mean "not set" in a row and some endpoints reject them. Raises
    `RowError`: the row's `metadata.extra_body` or `metadata.chat_template_kwargs` is not a JSON
    object, or the first sets `stream`.
    """
    values = set_fields(params)
    fields = {key: value for key, value in values.items() if value is not None and key != "stream"}
    metadata = fields.pop("metadata", {})
    if isinstance(fields["input"], list):
        fields["input"] = [_sendable(item) for item in fields["input"]]
    of_the_row = json_setting(metadata, "extra_body")
    if of_the_row.get("stream"):
        expected = "no `stream`: an answer is read in one piece"
        raise RowError(
            f"/metadata/extra_body cannot be sent; expected: {expected}",
            evidence=CallEvidence(problems=(FieldProblem("/metadata/extra_body", expected),)),
        )
    request = {"model": model, **extra_body, **of_the_row, **fields}
    if template := json_setting(metadata, _TEMPLATE):
        request[_TEMPLATE] = {**(request.get(_TEMPLATE) or {}), **template}
    if foreign_metadata := {key: value for key, value in metadata.items() if key not in _OURS}:
        request["metadata"] = foreign_metadata
    return request


def _sendable(item: Any) -> JsonDict:
    """Return an input item without token ids; a reasoning item also without nulls and `status`,
    which OpenAI puts on its answers but refuses in a request.
    """
    fields = without_tokens(set_fields(item) if isinstance(item, BaseModel) else item)
    if fields.get("type") != "reasoning":
        return fields
    return {name: value for name, value in fields.items() if name != "status" and value is not None}


def read_response(body: bytes, *, model: str) -> Response:
    """Decode a response and keep its unknown fields. `model`: the requested model, used if the body
    names none.

    A null in a field that needs a value (`id`, `tools`, a part of `usage`) counts as missing.
    Raises ValueError: the body holds no response.
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


def _counted(usage: JsonObject) -> JsonDict | None:
    """Return the usage without nulls; None when nothing else is left. A null in its details stays:
    that detail is unknown.
    """
    usage_fields = {key: value for key, value in usage.items() if value is not None}
    if not usage_fields:
        return None
    input_count, written = (
        usage_fields.setdefault("input_tokens", 0),
        usage_fields.setdefault("output_tokens", 0),
    )
    usage_fields.setdefault("total_tokens", input_count + written)
    return usage_fields


def failure_of(response: Response) -> ModelError | None:
    """Return the error that a response reports, with the provider's message; None for a real
    answer.
    """
    error = response.error
    if not error and response.status not in _NO_ANSWERS:
        return None
    about = f"the response of {response.model} is {response.status or 'failed'!r}"
    if not isinstance(error, dict):
        return ModelError(f"{about}: {error or 'it gives no reason'}")
    code = str(error.get("code") or "")
    message = ": ".join(filter(None, (code, str(error.get("message") or "")))) or repr(error)
    kind = ModelRejectedRow if _OF_THE_ROW.search(code) else ModelError
    return kind(f"{about}: {message}")


def cut_at_limit(response: Response, request: JsonObject) -> Response:
    """Return `response`, marked as incomplete when it used all the tokens that `request` allowed.

    llama.cpp sends `completed` for an answer that it cut off at the limit.
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


class OpenAIModelConfig(EndpointConfig):
    """The settings of `openai_model`."""

    openai_base_url: str
    """The URL of the endpoint, including `/v1`."""
    openai_api_key: SecretStr = SecretStr("")
    """The API key, sent as a bearer token; empty: no key is sent."""
    openai_model: str
    """The model for requests that name none."""


class OpenAIModel(ModelServer):
    """A model server that forwards requests to `<openai_base_url>/responses` and returns the
    answers.
    """

    config: OpenAIModelConfig

    @cached_property
    def _base_url(self) -> str:
        return self.config.openai_base_url.rstrip("/")

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(
            self.server_client.http,
            server=self.name,
            model=self.config.openai_model,
            api_key=self.config.openai_api_key.get_secret_value(),
            headers=self.config.default_headers,
            request_timeout_s=self.config.request_timeout_s,
            count=self.server_client.retries,
            client=self.server_client,
        )

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Return one model turn. Raises `CallError`: the endpoint refuses the request."""
        del session  # there is one endpoint, and it keeps nothing of ours
        config = self.config
        request = to_request(body, model=config.openai_model, extra_body=config.extra_body or {})
        url = f"{self._base_url}/responses"
        answer = await self._upstream.post(url, request)
        if isinstance(answer, ContextOverflow):
            return overflow_response(body, model=request["model"], overflow=answer)
        try:
            response = read_response(answer, model=request["model"])
        except ValueError as error:
            overflow = self._upstream.answers.no_answer(url, answer, "response", error)
            return overflow_response(body, model=request["model"], overflow=overflow)
        failure = failure_of(response)
        if failure is None:
            self._upstream.answers.answered()
            return cut_at_limit(response, request)
        if is_context_overflow(failure.message):
            hop = Hop(self.name, url, 200, excerpt(answer))
            overflow = self._upstream.answers.overflow(failure.message, hop)
            return overflow_response(body, model=response.model, overflow=overflow)
        raise self._upstream.answers.failed(url, answer, failure)

    async def list_models(self) -> list[str]:
        """Return the models that the endpoint lists. Raises `CallError`: it does not answer."""
        return await self._upstream.models(self._base_url)

    def facts(self) -> EndpointFacts:
        """Return the name of the configured model."""
        return EndpointFacts(model=self.config.openai_model)

    async def check(self) -> str:
        """Ask the endpoint which models it serves, and return a summary. Raises `CallError`: it
        does not answer.
        """
        return await check_endpoint(self._upstream, self._base_url, self.config.openai_model)
