import asyncio
from typing import Any

import pytest
from endpoint_fakes import VLLM, ScriptedTransport, capture, reply
from pydantic import ValidationError

from palestra.errors import ConfigError, ModelError, ModelRejectedRow, PromptTooLong, RowError
from palestra.responses_api_models.openai_model.app import OpenAIModel, OpenAIModelConfig
from palestra.schema import Response, ResponseCreateParams
from palestra.server import Session
from palestra.transport import HttpReply, ServerClient

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "created_at": 1795233018,
    "model": "gpt-x-2026",
    "object": "response",
    "output": [
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"q": "x"}},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "phase": None,
            "content": [{"type": "output_text", "text": "42", "annotations": [], "new": 1}],
        },
    ],
    "tools": None,
    "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "input_tokens_details": None},
    "billing": {"payer": "x"},
}  # fmt: skip


def test_an_openai_base_url_without_a_scheme_is_refused_with_one() -> None:
    with pytest.raises(ValidationError, match=r"write http://127\.0\.0\.1:8000/v1"):
        OpenAIModelConfig(name="m", openai_base_url="127.0.0.1:8000/v1", openai_model="gpt-x")


def test_a_password_in_a_base_url_without_a_scheme_is_not_repeated() -> None:
    url = "me:pass-word-1@host/v1"
    with pytest.raises(ValueError, match=r"write http://\*\*\*\*@host/v1") as caught:
        OpenAIModelConfig(name="m", openai_base_url=url, openai_model="gpt-x")

    assert "pass-word" not in caught.value.errors(include_input=False)[0]["msg"]


def ask(
    answer: HttpReply, params: dict[str, Any] | None = None, **settings: Any
) -> tuple[Response, ScriptedTransport]:
    http = ScriptedTransport([answer])
    config = OpenAIModelConfig(
        name="policy_model",
        openai_base_url="http://fake/v1/",
        openai_api_key="sk-1",
        openai_model="gpt-x",
        **settings,
    )
    server = OpenAIModel(config=config, server_client=ServerClient({}, http))
    body = ResponseCreateParams.model_validate({"input": "hi", **(params or {})})
    return asyncio.run(server.responses(body, Session("s"))), http


def sent(params: dict[str, Any], **settings: Any) -> Any:
    return ask(reply(200, RESPONSE), params, **settings)[1].requests[0]["body"]


def test_a_response_passes_through_with_all_it_holds() -> None:
    found, http = ask(reply(200, RESPONSE))

    assert http.requests[0]["url"] == "http://fake/v1/responses"
    assert (found.final_text, found.model) == ("42", "gpt-x-2026")
    plain = found.model_dump(exclude_unset=True)
    assert plain["billing"] == {"payer": "x"}
    assert plain["output"][0]["action"] == {"q": "x"}
    assert plain["output"][1]["content"][0]["new"] == 1


@pytest.mark.parametrize("name", ["responses", "responses_items_tools"])
def test_captured_responses_pass_through(name: str) -> None:
    body = capture(name)["body"]

    found, _ = ask(reply(200, body))

    assert found.id == body["id"]
    assert found.output_text == body["output"][0]["content"][0]["text"]


def cut(params: dict[str, Any], **fields: Any) -> tuple[Any, Any]:
    """Status and reason of a response that says `completed`, after two tokens of output."""
    found, _ = ask(reply(200, {**RESPONSE, "status": "completed", **fields}), params)
    reason = found.incomplete_details.reason if found.incomplete_details else None
    return found.status, reason


@pytest.mark.parametrize("limit", [1, 2])
def test_a_response_that_used_up_its_tokens_is_incomplete_whatever_it_says(limit: int) -> None:
    assert cut({"max_output_tokens": limit}) == ("incomplete", "max_output_tokens")


@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({"max_output_tokens": 3}, {}),
        ({}, {}),
        ({"max_output_tokens": 2}, {"usage": None}),
    ],
)
def test_a_response_within_its_tokens_or_without_a_limit_is_complete(
    params: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert cut(params, **fields) == ("completed", None)


def test_what_a_response_says_of_its_own_end_is_kept() -> None:
    given = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}

    assert cut({"max_output_tokens": 2}, **given) == ("incomplete", "content_filter")


def test_the_configured_model_is_asked_when_the_row_names_none() -> None:
    assert sent({})["model"] == "gpt-x"
    assert sent({"model": None})["model"] == "gpt-x"
    assert sent({"model": "other"})["model"] == "other"


def test_extras_are_merged_and_what_is_only_ours_stays_home() -> None:
    item: dict[str, Any] = {"role": "assistant", "content": "x", "generation_token_ids": [1]}
    item["token_continuity"] = {"state": "first", "reason": "", "seal": "s"}
    params = {
        "input": [item],
        "temperature": None,
        "top_p": 0.5,
        "stream": False,
        "metadata": {"extra_body": '{"top_k": 2, "top_p": 1}', "note": "n"},
    }

    assert sent(params, extra_body={"top_k": 1, "min_p": 0}) == {
        "model": "gpt-x",
        "top_k": 2,
        "min_p": 0,
        "top_p": 0.5,
        "input": [{"role": "assistant", "content": "x"}],
        "metadata": {"note": "n"},
    }


def test_arguments_of_the_chat_template_are_sent_and_those_of_the_row_override() -> None:
    metadata = {"chat_template_kwargs": '{"enable_thinking": false}'}
    configured = {"chat_template_kwargs": {"enable_thinking": True, "a": 1}}

    request = sent({"metadata": metadata}, extra_body=configured)

    assert request["chat_template_kwargs"] == {"enable_thinking": False, "a": 1}
    assert "metadata" not in request


def test_bad_json_in_metadata_is_the_rows_fault() -> None:
    with pytest.raises(RowError, match="/metadata/extra_body"):
        sent({"metadata": {"extra_body": "{"}})


def test_a_context_that_filled_is_an_empty_truncated_response() -> None:
    said = {"type": "message", "role": "assistant", "content": "hello"}

    found, _ = ask(reply(*VLLM["prompt overflow"]), {"input": [said]})

    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == "max_output_tokens"
    assert found.incomplete_details.true_reason == "context_full"


def test_a_prompt_that_never_fitted_is_the_rows_fault() -> None:
    with pytest.raises(PromptTooLong):
        ask(reply(*VLLM["prompt overflow"]))


def test_a_refusal_is_in_the_providers_words() -> None:
    with pytest.raises(ModelRejectedRow, match="Invalid grammar specification"):
        ask(reply(*VLLM["bad grammar"]))


def test_a_response_that_failed_is_a_failure_in_the_providers_words() -> None:
    error = {"code": "server_error", "message": "something broke"}

    with pytest.raises(ModelError, match="'failed': server_error: something broke") as caught:
        ask(reply(200, {**RESPONSE, "status": "failed", "error": error}))

    assert caught.value.retriable
    assert "something broke" in caught.value.evidence.hops[0].body


@pytest.mark.parametrize("status", ["failed", "cancelled", "in_progress"])
def test_a_status_without_an_answer_is_a_failure_without_an_error_too(status: str) -> None:
    with pytest.raises(ModelError, match=f"is '{status}'"):
        ask(reply(200, {**RESPONSE, "status": status, "error": None}))


@pytest.mark.parametrize("code", ["invalid_prompt", "image_too_large", "unsupported_image_type"])
def test_a_response_that_failed_for_its_row_is_the_rows_fault(code: str) -> None:
    error = {"code": code, "message": "no"}

    with pytest.raises(ModelRejectedRow, match=code):
        ask(reply(200, {**RESPONSE, "status": "failed", "error": error}))


def test_a_response_that_failed_for_its_length_is_none() -> None:
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window"}

    with pytest.raises(PromptTooLong):
        ask(reply(200, {**RESPONSE, "status": "failed", "error": error}))


def test_an_error_that_came_as_a_success_has_its_own_status() -> None:
    with pytest.raises(ModelError, match="answered 503: no slot"):
        ask(reply(200, {"error": {"code": 503, "message": "no slot"}}))


def test_nulls_for_what_an_endpoint_does_not_know_are_no_failure() -> None:
    usage = {"input_tokens": 3, "output_tokens": None, "total_tokens": None}

    found, _ = ask(reply(200, {**RESPONSE, "id": None, "model": None, "usage": usage}))

    assert found.id.startswith("resp_")
    assert found.model == "gpt-x"
    assert found.usage is not None
    assert found.usage.total_tokens == 3


def test_a_reasoning_item_goes_back_without_the_fields_that_openai_refuses() -> None:
    answered = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    item = {**answered, "status": "completed", "content": None}

    assert sent({"input": [item]})["input"] == [answered]


def test_a_detail_of_the_usage_that_the_endpoint_does_not_report_is_unknown() -> None:
    usage = {**RESPONSE["usage"], "output_tokens_details": {"reasoning_tokens": None}}

    found = ask(reply(200, {**RESPONSE, "usage": usage}))[0].usage

    assert found is not None
    assert found.input_tokens_details.cached_tokens is None
    assert found.output_tokens_details.reasoning_tokens is None


@pytest.mark.parametrize("body", [b"[]", b"<html>", b'{"id":"x"}'])
def test_a_success_that_is_no_response_is_shown(body: bytes) -> None:
    with pytest.raises(ModelError, match="not a valid response"):
        ask(reply(200, body))


def test_a_stream_cannot_be_configured() -> None:
    given = {"openai_base_url": "http://fake/v1", "openai_model": "m"}

    with pytest.raises(ConfigError, match=r"extra_body\.stream"):
        OpenAIModelConfig.model_validate({**given, "extra_body": {"stream": True}})
    OpenAIModelConfig.model_validate({**given, "extra_body": {"stream": False}})


def test_a_row_cannot_ask_for_a_stream() -> None:
    with pytest.raises(RowError, match="stream"):
        ask(reply(200, RESPONSE), {"metadata": {"extra_body": '{"stream": true}'}})
