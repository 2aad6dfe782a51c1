"""`anthropic_model`, in front of a local server that behaves like Anthropic's Messages."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from dialect_server import KEY, MODEL, SIGNATURE, DialectServer, Refused, dialect_server
from palestra.errors import (
    CredentialsRejected,
    ModelNotServed,
    ModelRejectedRow,
    PromptTooLong,
    RowError,
)
from palestra.responses_api_models.anthropic_model.app import AnthropicModel, AnthropicModelConfig
from palestra.responses_api_models.anthropic_model.request import to_messages_request
from palestra.responses_api_models.anthropic_model.response import response_from_message
from palestra.schema import FunctionCall, Reasoning, Response, ResponseCreateParams, encode_json
from palestra.server import Session
from palestra.transport import HttpClient, ServerClient

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
def endpoint() -> Iterator[DialectServer]:
    with dialect_server("messages") as server:
        yield server


def ask(endpoint: DialectServer, *, key: str = KEY, model: str = MODEL, **params: Any) -> Response:
    config = AnthropicModelConfig(
        name="policy_model", base_url=f"{endpoint.url}/", api_key=key, model=model
    )

    async def turn() -> Response:
        http = HttpClient()
        server = AnthropicModel(config=config, server_client=ServerClient({}, http))
        try:
            body = ResponseCreateParams.model_validate({"input": "Weather?", **params})
            return await server.responses(body, Session("s"))
        finally:
            await http.aclose()

    return asyncio.run(turn())


def request_of(**params: Any) -> dict[str, Any]:
    body = ResponseCreateParams.model_validate({"input": "hi", **params})
    return to_messages_request(body, model="m", max_tokens=100, extra_body={})


def answer_of(**message: Any) -> Response:
    body = encode_json({"content": [], "stop_reason": "end_turn", **message})
    return response_from_message(body, ResponseCreateParams(input="hi"), model="m")


def test_a_question_is_answered(endpoint: DialectServer) -> None:
    answer = ask(endpoint, max_output_tokens=9)

    assert (answer.final_text, answer.model, answer.status) == ("sunny", MODEL, "completed")
    assert endpoint.requests[0][2]["max_tokens"] == 9
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (8, 2)
    assert answer.usage.input_tokens_details.cached_tokens == 4


def test_a_row_without_a_limit_gets_the_default_one(endpoint: DialectServer) -> None:
    ask(endpoint)

    assert endpoint.requests[0][2]["max_tokens"] == 8192


def test_a_conversation_with_thinking_and_tools_goes_back_as_it_came(
    endpoint: DialectServer,
) -> None:
    thinking = {"type": "adaptive"}
    first = ask(endpoint, tools=[WEATHER], thinking=thinking)
    call = first.output[-1]
    assert isinstance(call, FunctionCall)
    assert (call.name, call.arguments) == ("get_weather", '{"city":"Paris"}')
    assert [item.type for item in first.output] == [
        *("reasoning", "reasoning"),
        *("message", "function_call"),
    ]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "warm"}
    history = [
        {"role": "user", "content": "Weather?"},
        *(item.model_dump(exclude_unset=True) for item in first.output),
        output,
    ]

    second = ask(endpoint, input=history, tools=[WEATHER], thinking=thinking)

    assert second.final_text == "sunny"
    assert endpoint.requests[1][2]["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "weather?", "signature": SIGNATURE},
                {"type": "redacted_thinking", "data": "EmwKAhgB"},
                {"type": "text", "text": "Let me look."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "get_weather",
                    "input": {"city": "Paris"},
                },
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "warm"}],
        },
    ]


def test_a_wrong_key_ends_the_run(endpoint: DialectServer) -> None:
    with pytest.raises(CredentialsRejected, match="invalid x-api-key"):
        ask(endpoint, key="another-key")


def test_an_unknown_model_ends_the_run(endpoint: DialectServer) -> None:
    with pytest.raises(ModelNotServed, match="model: claude-none"):
        ask(endpoint, model="claude-none")


def test_an_account_without_credit_ends_the_run(endpoint: DialectServer) -> None:
    endpoint.refusal = Refused(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
    )

    with pytest.raises(CredentialsRejected, match="credit balance"):
        ask(endpoint)


@pytest.mark.parametrize(
    "sentence",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    ],
)
def test_a_prompt_that_does_not_fit_is_told_apart(endpoint: DialectServer, sentence: str) -> None:
    endpoint.refusal = Refused(400, "invalid_request_error", sentence)

    with pytest.raises(PromptTooLong):
        ask(endpoint)


def test_an_answer_that_is_no_message_is_quoted() -> None:
    with pytest.raises(ValueError, match="no content"):
        response_from_message(b'{"choices": []}', ResponseCreateParams(input="hi"), model="m")


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("max_tokens", "max_output_tokens"),
        ("model_context_window_exceeded", "context_full"),
        ("refusal", "content_filter"),
    ],
)
def test_an_answer_that_is_not_whole_says_why(stop_reason: str, reason: str) -> None:
    answer = answer_of(content=[{"type": "text", "text": "Once"}], stop_reason=stop_reason)

    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.true_reason == reason


def test_an_empty_answer_is_an_empty_message() -> None:
    assert answer_of().final_text == ""


def test_texts_that_follow_each_other_are_one_message() -> None:
    texts = [{"type": "text", "text": text} for text in ("It is ", "sunny.")]

    assert answer_of(content=texts).final_text == "It is sunny."


def test_system_messages_and_instructions_are_the_system_prompt() -> None:
    told = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]

    request = request_of(instructions="Be kind.", input=told)

    assert [block["text"] for block in request["system"]] == ["Be kind.", "Be brief."]
    assert request["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_images_are_sent_as_data_or_as_an_address() -> None:
    urls = ("data:image/png;base64,aGk=", "https://example.com/x.png")
    parts = [{"type": "input_image", "image_url": url} for url in urls]

    request = request_of(input=[{"role": "user", "content": parts}])

    assert [block["source"] for block in request["messages"][0]["content"]] == [
        {"type": "base64", "media_type": "image/png", "data": "aGk="},
        {"type": "url", "url": "https://example.com/x.png"},
    ]


def test_reasoning_of_another_model_is_sent_as_text() -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    history = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "summary": summary},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "and?"},
    ]

    assert request_of(input=history)["messages"][1]["content"] == [
        {"type": "text", "text": "<think>hm</think>"},
        {"type": "text", "text": "hello"},
    ]


@pytest.mark.parametrize(
    ("params", "sent"),
    [
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"user": "u"}, {"metadata": {"user_id": "u"}}),
        ({"reasoning": {"effort": "low"}}, {"output_config": {"effort": "low"}}),
        (
            {
                "text": {
                    "format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
                }
            },
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        ),
        ({"tools": [WEATHER], "tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "get_weather"}},
            {"tool_choice": {"type": "tool", "name": "get_weather"}},
        ),
        (
            {"tools": [WEATHER], "parallel_tool_calls": False},
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ),
        ({"metadata": {"extra_body": '{"top_k": 5}'}}, {"top_k": 5}),
    ],
)
def test_a_parameter_has_its_name_in_messages(params: dict[str, Any], sent: dict[str, Any]) -> None:
    request = request_of(**params)

    assert {name: request[name] for name in sent} == sent


@pytest.mark.parametrize(
    ("params", "pointer"),
    [
        ({"previous_response_id": "r"}, "/previous_response_id"),
        ({"top_logprobs": 2}, "/top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "/include/0"),
        ({"n": 2}, "/n"),
        ({"max_output_tokens": 0}, "/max_output_tokens"),
        ({"tools": [{"type": "web_search"}]}, "/tools/0"),
        ({"tool_choice": "required"}, "/tool_choice"),
        ({"text": {"verbosity": "low"}}, "/text/verbosity"),
        ({"metadata": {"chat_template_kwargs": '{"a": 1}'}}, "/metadata/chat_template_kwargs"),
        ({"input": [{"role": "user", "content": "x", "name": "Ada"}]}, "/input/0/name"),
        ({"metadata": {"extra_body": '{"stream": true}'}}, "/metadata/extra_body"),
        (
            {
                "input": [
                    {"role": "user", "content": "hi"},
                    {"role": "system", "content": "Be brief."},
                ]
            },
            "/input/1",
        ),
        (
            {
                "input": [
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{oops"}
                ]
            },
            "/input/0/arguments",
        ),
    ],
)
def test_what_messages_cannot_express_is_refused_with_its_place(
    params: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(RowError, match="endpoint of Anthropic's Messages") as refused:
        request_of(**params)

    assert refused.value.evidence.problems[0].pointer == pointer


def test_signed_thinking_is_a_reasoning_item_with_its_text() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}

    (item, _) = answer_of(content=[block, {"type": "text", "text": "x"}]).output

    assert isinstance(item, Reasoning)
    assert [part.text for part in item.summary] == ["hm"]


def test_a_request_that_the_server_refuses_fails_its_row(endpoint: DialectServer) -> None:
    endpoint.refusal = Refused(422, "invalid_request_error", "tools.0: bad schema")

    with pytest.raises(ModelRejectedRow, match="bad schema"):
        ask(endpoint)


def test_cache_marks_of_texts_and_tools_are_sent() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    part = {"type": "input_text", "text": "long", **mark}

    request = request_of(input=[{"role": "user", "content": [part]}], tools=[{**WEATHER, **mark}])

    assert request["messages"][0]["content"] == [{"type": "text", "text": "long", **mark}]
    assert request["tools"][0]["cache_control"] == mark["cache_control"]
