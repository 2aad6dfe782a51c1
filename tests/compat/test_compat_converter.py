"""`nemo_gym.responses_converter` converts as the model servers of the field expect it."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from palestra.compat.nemo_gym import responses_converter
from palestra.compat.nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseFunctionToolCallForTraining,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputMessageForTraining,
    TokenIDLogProbMixin,
)
from palestra.compat.nemo_gym.responses_converter import (
    ResponsesConverter,
    VLLMConverterResponsesToChatCompletionsState,
    _usage_detail,
    split_responses_input_output_items,
)

TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALL_ITEM = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
REASONING = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}
ANSWER = {
    "type": "message",
    "id": "msg",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "4", "annotations": []}],
}
USER = {"role": "user", "content": "2+2?"}


def converter(*, tokens: bool = False, **settings: Any) -> ResponsesConverter:
    return ResponsesConverter(return_token_id_information=tokens, **settings)


def chat(**params: Any) -> dict[str, Any]:
    """The fields of the chat request for a Responses API request."""
    request = NeMoGymResponseCreateParamsNonStreaming.model_validate({"input": "x", **params})
    converted = converter().responses_to_chat_completion_create_params(request)
    return converted.model_dump(exclude_unset=True)


def messages(*items: Any, tokens: bool = False) -> list[Any]:
    return converter(tokens=tokens).responses_input_to_chat_messages(items)


def items(message: dict[str, Any], **settings: Any) -> list[Any]:
    return converter(**settings).postprocess_assistant_message_dict(
        {"role": "assistant", **message}
    )


def completion(message: dict[str, Any] | None = None, **fields: Any) -> NeMoGymChatCompletion:
    choice = {
        "index": 0,
        "finish_reason": fields.pop("finish_reason", "stop"),
        "message": {"role": "assistant", "content": "4", **(message or {})},
    }
    return NeMoGymChatCompletion.model_validate(
        {"id": "chat", "created": 7, "model": "endpoint's", "choices": [choice], **fields}
    )


def answer(params: dict[str, Any] | None = None, **fields: Any) -> NeMoGymResponse:
    request = NeMoGymResponseCreateParamsNonStreaming.model_validate(
        {"input": "x", **(params or {})}
    )
    return converter().chat_completion_to_response(request, completion(**fields))


# ResponsesConverter


def test_responses_converter_needs_return_token_id_information_and_parses_by_default() -> None:
    with pytest.raises(ValueError, match="return_token_id_information"):
        ResponsesConverter.model_validate({})
    assert converter().uses_reasoning_parser is True


# ResponsesConverter.chat_completion_to_response


def test_chat_completion_to_response_takes_the_request_first() -> None:
    request = NeMoGymResponseCreateParamsNonStreaming(input="x", model="asked")

    by_position = converter().chat_completion_to_response(request, completion())
    by_name = converter().chat_completion_to_response(
        responses_create_params=request, chat_completion=completion()
    )

    assert by_position.output_text == by_name.output_text == "4"
    assert by_position.model == "asked"
    assert by_position.created_at == 7


def test_chat_completion_to_response_repeats_the_parameters() -> None:
    params: dict[str, Any] = {"temperature": 0.5, "metadata": {"a": "b"}, "max_output_tokens": 3}

    response = answer(params)

    assert {name: getattr(response, name) for name in params} == params
    assert (response.parallel_tool_calls, response.tool_choice, response.tools) == (
        True,
        "auto",
        [],
    )


def test_chat_completion_to_response_makes_a_new_id_for_each_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = iter(["1", "2", "3"])
    monkeypatch.setattr(responses_converter, "uuid4", lambda: SimpleNamespace(hex=next(made)))

    response = answer(message={"content": "<think>hm</think>4"})

    ids = [response.id, *(item.id for item in response.output)]
    assert sorted(text[-1] for text in ids) == ["1", "2", "3"]
    assert [text[:-1] for text in ids] == ["resp_", "rs_", "msg_"]


def test_chat_completion_to_response_gives_a_call_the_id_of_the_call() -> None:
    (call,) = answer(message={"content": None, "tool_calls": [CALL]}).output

    assert (call.type, call.id, call.call_id) == ("function_call", "call_1", "call_1")
    assert (call.name, call.arguments, call.status) == ("f", "{}", "completed")


@pytest.mark.parametrize(
    ("finish_reason", "status", "reason"),
    [
        ("stop", None, None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_chat_completion_to_response_is_incomplete_when_the_answer_was_cut(
    finish_reason: str, status: str | None, reason: str | None
) -> None:
    response = answer(finish_reason=finish_reason)

    assert response.status == status
    assert (response.incomplete_details and response.incomplete_details.reason) == reason


def test_chat_completion_to_response_does_not_know_details_that_are_not_reported() -> None:
    counts = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    known = {**counts, "completion_tokens_details": {"reasoning_tokens": 2}}

    assert answer(usage=None).usage is None
    for usage, reasoning_tokens in ((counts, None), (known, 2)):
        found = answer(usage=usage).usage
        assert found is not None
        assert (found.input_tokens, found.output_tokens, found.total_tokens) == (1, 2, 3)
        assert found.input_tokens_details.cached_tokens is None
        assert found.output_tokens_details.reasoning_tokens == reasoning_tokens


# ResponsesConverter.uses_reasoning_parser


def test_uses_reasoning_parser_takes_all_think_blocks_into_one_item() -> None:
    text = "<think>one</think>\n\n<think>two</think> 4\n"

    reasoning, message = items({"content": text})

    assert [block.text for block in reasoning.summary] == ["one", "two"]
    assert message.content[0].text == "\n\n 4\n"


def test_uses_reasoning_parser_false_leaves_the_text_as_it_is() -> None:
    (message,) = items({"content": "<think>hm</think>4"}, uses_reasoning_parser=False)

    assert message.content[0].text == "<think>hm</think>4"


@pytest.mark.parametrize("text", ["<think>never closed", "opened by the template</think>4"])
def test_uses_reasoning_parser_reads_only_whole_blocks(text: str) -> None:
    (message,) = items({"content": text})

    assert message.content[0].text == text


def test_uses_reasoning_parser_holds_for_message_lists_too() -> None:
    chat_messages = [{"role": "assistant", "content": "<think>hm</think>4"}]

    kinds = {
        parses: [
            item.type
            for item in converter(
                uses_reasoning_parser=parses
            ).chat_completions_messages_to_responses_items(chat_messages)
        ]
        for parses in (True, False)
    }

    assert kinds == {True: ["reasoning", "message"], False: ["message"]}


def test_reasoning_of_the_endpoints_parser_becomes_one_item() -> None:
    reasoning, message = items({"content": "4", "reasoning_content": "hm", "reasoning": "hm"})

    assert [block.text for block in reasoning.summary] == ["hm"]
    assert message.content[0].text == "4"


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        ({"content": ""}, ["message"]),
        ({"content": "<think>hm</think>"}, ["reasoning"]),
        ({"content": None, "tool_calls": [CALL]}, ["function_call"]),
        ({"content": "x", "tool_calls": [CALL]}, ["message", "function_call"]),
    ],
)
def test_only_a_message_without_anything_becomes_an_empty_one(
    message: dict[str, Any], kinds: list[str]
) -> None:
    assert [item.type for item in items(message)] == kinds


def test_a_refusal_stays_one() -> None:
    (message,) = items({"content": None, "refusal": "no"})

    assert message.content[0].refusal == "no"


# ResponsesConverter requests


def test_requests_turn_a_string_into_a_user_message_with_one_text_part() -> None:
    assert chat()["messages"] == [{"role": "user", "content": [{"type": "text", "text": "x"}]}]


def test_requests_keep_texts_as_texts_and_parts_as_parts() -> None:
    parts = [{"type": "input_text", "text": "x"}]

    assert messages(USER, {"role": "developer", "content": parts}) == [
        USER,
        {"role": "developer", "content": [{"type": "text", "text": "x"}]},
    ]


def test_requests_convert_images_and_videos() -> None:
    parts = [
        {"type": "input_image", "image_url": "data:i", "detail": "low"},
        {"type": "input_video", "video_url": "data:v"},
    ]

    assert messages({"role": "user", "content": parts})[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:i", "detail": "low"}},
        {"type": "video_url", "video_url": {"url": "data:v"}},
    ]


def test_requests_pass_metadata_through() -> None:
    metadata = {"chat_template_kwargs": json.dumps({"enable_thinking": False})}

    assert chat(metadata=metadata)["metadata"] == metadata


def test_requests_rename_parameters_and_add_none() -> None:
    params = {"max_output_tokens": 5, "reasoning": {"effort": "low"}, "top_logprobs": 2}
    tool = {"type": "function", "name": "f", "parameters": {}, "strict": True}

    body = chat(**params, temperature=0.5, tools=[tool], tool_choice="required")

    assert {name: value for name, value in body.items() if name != "messages"} == {
        "max_tokens": 5,
        "reasoning_effort": "low",
        "top_logprobs": 2,
        "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": "required",
    }


def test_requests_without_tools_have_no_settings_of_tools() -> None:
    assert chat(tools=[], tool_choice="auto", parallel_tool_calls=True).keys() == {"messages"}


def test_requests_join_the_instructions_and_the_leading_system_messages() -> None:
    system = {"role": "system", "content": "b"}

    assert chat(instructions="a", input=[system, USER])["messages"] == [
        {"role": "system", "content": "a\n\nb"},
        USER,
    ]


def test_requests_fold_the_items_of_a_turn_into_one_message() -> None:
    output = {"type": "function_call_output", "call_id": "call_1", "output": "3"}

    assert messages(USER, REASONING, ANSWER, CALL_ITEM, output) == [
        USER,
        {"role": "assistant", "content": "<think>hm</think>4", "tool_calls": [CALL]},
        {"role": "tool", "content": "3", "tool_call_id": "call_1"},
    ]


@pytest.mark.parametrize("error", [NotImplementedError, ValueError])
@pytest.mark.parametrize(
    "item",
    [{"type": "web_search_call"}, {"role": "user", "content": [{"type": "input_file"}]}],
)
def test_requests_with_what_a_chat_has_not_are_errors(
    item: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        messages(item)


# Token metadata


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"content": "4"}, NeMoGymResponseOutputMessageForTraining),
        ({"content": "4", "tool_calls": [CALL]}, NeMoGymResponseFunctionToolCallForTraining),
    ],
)
def test_token_metadata_goes_to_the_last_item_when_it_is_asked_for(
    message: dict[str, Any], kind: type
) -> None:
    with_tokens = items({**message, **TOKENS}, tokens=True)

    assert type(with_tokens[-1]) is kind
    last = with_tokens[-1].model_dump(exclude_unset=True)
    assert {name: last[name] for name in TOKENS} == TOKENS
    assert "generation_token_ids" not in items({**message, **TOKENS})[-1].model_dump()


def test_token_metadata_goes_back_to_the_message_when_it_is_asked_for() -> None:
    plain = {"role": "assistant", "content": "4"}

    assert messages({**ANSWER, **TOKENS}, tokens=True) == [{**plain, **TOKENS}]
    assert messages({**ANSWER, **TOKENS}) == [plain]


def test_token_metadata_survives_a_completion() -> None:
    response = converter(tokens=True).chat_completion_to_response(
        {"input": "x", "model": "m"}, completion(TOKENS)
    )

    assert response.output[-1].generation_log_probs == [-0.5]


# VLLMConverterResponsesToChatCompletionsState


def test_state_flush_assistant_appends_the_buffered_message_and_clears_it() -> None:
    state = VLLMConverterResponsesToChatCompletionsState(
        return_token_id_information=True,
        content_buffer="4",
        tool_calls_buffer=[CALL],
        assistant_item_buffered=True,
        token_information=TokenIDLogProbMixin.model_validate(TOKENS),
    )

    state.flush_assistant()
    state.flush_assistant()

    assert state.messages == [{"role": "assistant", "content": "4", "tool_calls": [CALL], **TOKENS}]
    assert (state.content_buffer, state.tool_calls_buffer) == ("", [])
    assert (state.assistant_item_buffered, state.token_information) == (False, None)
    assert type(state) is responses_converter.ResponsesConverterState


def test_state_flush_assistant_leaves_out_what_is_empty() -> None:
    state = VLLMConverterResponsesToChatCompletionsState(
        return_token_id_information=False, assistant_item_buffered=True, token_information=TOKENS
    )

    state.flush_assistant()

    assert state.messages == [{"role": "assistant", "content": None}]


# ResponsesConverter privates


def test_privates_take_think_blocks_out_and_put_them_back() -> None:
    taken = converter()._extract_reasoning_from_content("<think>a</think> x <think>\nb</think>")

    assert taken == (["a", "\nb"], " x ")
    assert converter()._parse_think_tags("x") == ([], "x")
    assert converter()._wrap_reasoning_in_think_tags(["a", "", "b"]) == (
        "<think>a</think><think>b</think>"
    )
    assert ResponsesConverter.THINK_TAG_PATTERN.findall("<think>a</think>") == ["a"]


# Message lists


def test_message_lists_become_items_whose_tool_results_are_completed() -> None:
    chat_messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]

    system, user, call, output = converter().chat_completions_messages_to_responses_items(
        chat_messages
    )

    assert (system.role, system.content) == ("system", "s")
    assert user.content == [{"type": "input_text", "text": "u"}]
    assert call.call_id == "call_1"
    assert isinstance(output, NeMoGymFunctionCallOutput)
    assert (output.call_id, output.output, output.status) == ("call_1", "3", "completed")


def test_chat_requests_become_requests_without_foreign_parameters() -> None:
    params = converter().chat_completion_to_responses_create_params(
        {"messages": [USER], "max_tokens": 3, "seed": 1}
    )

    assert params.max_output_tokens == 3


def test_a_response_becomes_a_chat_completion() -> None:
    response = answer(message={"content": "4", "tool_calls": [CALL]})

    message = converter().response_to_chat_completion(response).choices[0].message

    assert message.content == "4"
    assert message.tool_calls is not None
    assert message.tool_calls[0].id == "call_1"


# split_responses_input_output_items


@pytest.mark.parametrize(
    "written",
    [
        NeMoGymResponseOutputMessage.model_validate(ANSWER),
        {"role": "assistant", "content": "x"},
        *(
            {"type": kind}
            for kind in (
                "function_call",
                "reasoning",
                "web_search_call",
                "file_search_call",
                "code_interpreter_call",
                "computer_call",
                "custom_tool_call",
                "image_generation_call",
                "local_shell_call",
                "mcp_call",
                "mcp_list_tools",
                "mcp_approval_request",
            )
        ),
    ],
)
def test_split_responses_input_output_items_cuts_before_the_first_written_item(
    written: Any,
) -> None:
    read = [{"type": "function_call_output"}, {"type": "mcp_approval_response"}, USER]

    assert split_responses_input_output_items([*read, written, USER]) == (read, [written, USER])
    assert split_responses_input_output_items(read) == (read, [])


# _usage_detail


@pytest.mark.parametrize(
    ("usage", "count"),
    [
        ({"details": {"count": 3}, "alias": 4}, 3),
        (SimpleNamespace(details=SimpleNamespace(count=0)), 0),
        ({"details": None, "alias": 4}, 4),
        ({"details": {"count": None}, "other": 5}, 5),
        ({"details": {"count": True}}, None),
        ({"details": {"count": -1}}, None),
        ({"details": {"count": 1.0}}, None),
        (None, None),
    ],
)
def test_usage_detail_is_a_true_count_or_none(usage: Any, count: int | None) -> None:
    assert _usage_detail(usage, "details", "count", "alias", "other") == count


# What must not be lost without a word


@pytest.mark.parametrize("kind", ["input_image", "input_file"])
def test_a_part_that_an_assistant_message_has_not_is_an_error(kind: str) -> None:
    message = {
        "role": "assistant",
        "type": "message",
        "content": [{"type": kind, "image_url": "u"}],
    }

    with pytest.raises(NotImplementedError, match=kind):
        ResponsesConverter(return_token_id_information=False).responses_input_to_chat_messages(
            [message]
        )


def test_reasoning_that_no_parser_expects_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    converter = ResponsesConverter(return_token_id_information=False, uses_reasoning_parser=False)

    converter.postprocess_assistant_message_dict({"content": "4", "reasoning_content": "hm"})

    assert "uses_reasoning_parser: true" in caplog.text


def test_names_of_speakers_go_both_ways() -> None:
    converter = ResponsesConverter(return_token_id_information=False)
    message = {"role": "user", "content": "x", "name": "Ada"}

    items = converter.chat_completions_messages_to_responses_items([message])

    assert converter.responses_input_to_chat_messages(items) == [message]


def test_a_sum_that_the_endpoint_leaves_out_is_made() -> None:
    usage = {"prompt_tokens": 2, "completion_tokens": 3}

    assert answer(usage=usage).usage.total_tokens == 5  # type: ignore[union-attr]


def test_a_tool_call_that_is_no_function_is_an_error() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}

    with pytest.raises(NotImplementedError, match="custom"):
        ResponsesConverter(return_token_id_information=False).postprocess_assistant_message_dict(
            {"content": None, "tool_calls": [call]}
        )
