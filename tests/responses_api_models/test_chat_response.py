from typing import Any

import orjson
import pytest

from palestra.errors import Hop, ModelError, WrongSetting
from palestra.responses_api_models.chat import (
    ConversionSettings,
    overflow_response,
    to_chat_request,
    to_response,
)
from palestra.responses_api_models.chat.provider_errors import ContextOverflow
from palestra.schema import (
    FunctionCall,
    OutputMessage,
    Reasoning,
    Response,
    ResponseCreateParams,
    decode_completion,
    encode_json,
)

PARSER = ConversionSettings(uses_reasoning_parser=True)


def response(
    message: dict[str, Any],
    settings: ConversionSettings | None = None,
    *,
    finish_reason: str = "stop",
    params: dict[str, Any] | None = None,
    logprobs: Any = None,
    **more: Any,
) -> Response:
    choice = {"message": message, "finish_reason": finish_reason, "logprobs": logprobs}
    body = {"id": "c", "created": 12, "model": "served", "choices": [choice], **more}
    return to_response(
        decode_completion(orjson.dumps(body)),
        ResponseCreateParams.model_validate({"input": "q", **(params or {})}),
        model="m",
        settings=settings or ConversionSettings(),
    )


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "arguments": arguments}, **more}


def blocks(item: Any) -> list[str]:
    assert isinstance(item, Reasoning)
    return [part.text for part in item.summary]


def test_text_is_one_message() -> None:
    found = response({"content": " hello\n"})

    assert [type(item) for item in found.output] == [OutputMessage]
    assert (found.output_text, found.status, found.incomplete_details) == (
        " hello\n",
        "completed",
        None,
    )
    assert (found.model, found.created_at) == ("served", 12)


def test_blocks_of_thinking_are_one_reasoning_item_before_the_message() -> None:
    thinking, message = response({"content": "<think>a</think><think>b</think>\n\nx"}).output

    assert blocks(thinking) == ["a", "b"]
    assert isinstance(message, OutputMessage)
    assert message.text == "\n\nx"


def test_thinking_amid_the_answer_keeps_its_place() -> None:
    found = response({"content": "x<think>b</think>y", "tool_calls": [call("{}")]})

    assert [item.type for item in found.output] == [
        "message",
        "reasoning",
        "message",
        "function_call",
    ]
    assert (found.output_text, found.final_text) == ("xy", "y")


def test_thinking_that_the_limit_cut_is_no_answer() -> None:
    found = response({"content": "<think>I wonder"}, finish_reason="length")

    assert [blocks(item) for item in found.output] == [["I wonder"]]
    assert found.final_text == ""


def test_thinking_that_the_template_opened_is_no_answer() -> None:
    found = response({"content": "I wonder</think>42"})

    assert (blocks(found.output[0]), found.final_text) == (["I wonder"], "42")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_a_reasoning_parsers_field_becomes_reasoning(name: str) -> None:
    thinking, message = response({name: "hm", "content": "42"}, PARSER).output

    assert blocks(thinking) == ["hm"]
    assert isinstance(message, OutputMessage)
    assert message.text == "42"


def test_tags_in_the_text_are_read_although_a_parser_was_expected() -> None:
    assert blocks(response({"content": "<think>a</think>b"}, PARSER).output[0]) == ["a"]


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("text", ["Use <think> tags.", "End it with </think>.", "</think><think>"])
def test_a_lone_tag_is_a_word_of_the_answer_where_the_reasoning_stands_beside_it(
    text: str, interleaved: bool
) -> None:
    settings = ConversionSettings(
        uses_reasoning_parser=True, uses_interleaved_reasoning=interleaved
    )

    found = response({"reasoning": "hm", "content": text}, settings)

    assert (blocks(found.output[0]), found.output_text) == (["hm"], text)
    assert sent_back(found.output, settings)[0]["content"] == text


def test_a_whole_block_is_reasoning_although_some_stands_beside_it() -> None:
    found = response({"reasoning": "hm", "content": "a<think>b</think>c<think>d"}, PARSER)

    assert [blocks(item) for item in found.output if isinstance(item, Reasoning)] == [["hm"], ["b"]]
    assert found.output_text == "ac<think>d"


def test_an_unexpected_reasoning_field_names_the_setting_to_change() -> None:
    with pytest.raises(WrongSetting) as caught:
        response({"content": "x", "reasoning": "hm"})

    assert "uses_reasoning_parser: true" in caught.value.hint


def test_parallel_calls_keep_their_ids_and_text() -> None:
    calls = [call('{"a": 1}', id="x"), call('{ "b":2 }', id="y")]

    found = response({"content": None, "tool_calls": calls}, finish_reason="tool_calls").output

    assert [(c.call_id, c.arguments) for c in found if isinstance(c, FunctionCall)] == [
        ("x", '{"a": 1}'),
        ("y", '{ "b":2 }'),
    ]
    assert len(found) == 2


def test_arguments_given_as_an_object_become_text_and_a_missing_id_is_made() -> None:
    found = response({"content": "", "tool_calls": [call({"a": [1]})]}).output[0]

    assert isinstance(found, FunctionCall)
    assert found.arguments == '{"a":[1]}'
    assert found.call_id.startswith("call_")


def test_no_words_at_all_are_one_empty_message() -> None:
    found = response({"content": None})

    assert [item.type for item in found.output] == ["message"]
    assert found.output_text == ""


MISTRAL = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}


@pytest.mark.parametrize(
    "part",
    [
        MISTRAL,
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "reasoning", "text": "hm"},
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
    ],
)
@pytest.mark.parametrize("settings", [None, PARSER])
def test_thinking_in_a_part_is_reasoning_and_goes_back_as_it_came(
    part: dict[str, Any], settings: ConversionSettings | None
) -> None:
    content = [part, {"type": "text", "text": "4"}]

    thinking, message = response({"content": content}, settings).output

    assert blocks(thinking) == ["hm"]
    assert isinstance(message, OutputMessage)
    assert message.text == "4"
    assert sent_back([thinking, message], settings) == [{"role": "assistant", "content": content}]


def sent_back(items: list[Any], settings: ConversionSettings | None = None) -> list[Any]:
    """As the next turn's request has them, after a way over the wire."""
    params = ResponseCreateParams.model_validate_json(encode_json({"input": items}))
    request = to_chat_request(params, model="m", settings=settings or ConversionSettings())
    found: list[Any] = orjson.loads(encode_json(request["messages"]))
    return found


def test_thinking_in_a_part_that_was_edited_goes_back_as_it_is_now() -> None:
    thinking = response({"content": [MISTRAL]}).output[0]
    assert isinstance(thinking, Reasoning)
    thinking.summary[0].text = "aha"

    assert sent_back([thinking])[0]["content"] == "<think>aha</think>"


def test_thinking_in_parts_stays_home_where_earlier_turns_go_without() -> None:
    settings = ConversionSettings(uses_reasoning_parser=True, uses_interleaved_reasoning=False)
    output = response({"content": [MISTRAL, {"type": "text", "text": "4"}]}).output

    assert sent_back(output, settings) == [{"role": "assistant", "content": "4"}]


def test_parts_of_the_endpoints_own_stay_in_their_place() -> None:
    content = [
        {"type": "text", "text": "see "},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "."},
    ]

    found = response({"content": content})

    assert found.output_text == "see ."
    assert sent_back(found.output) == [{"role": "assistant", "content": content}]


def test_a_refusal_among_the_parts_is_one() -> None:
    (message,) = response({"content": [{"type": "refusal", "refusal": "no"}]}).output

    assert sent_back([message]) == [{"role": "assistant", "content": "", "refusal": "no"}]


def test_what_only_the_provider_reads_of_its_reasoning_goes_back() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    signature = {"google": {"thought_signature": "s"}}
    signed = call("{}", id="1", extra_content=signature)

    output = response(
        {"content": None, "reasoning_details": details, "tool_calls": [signed]}, PARSER
    ).output

    assert sent_back(output, PARSER) == [
        {
            "role": "assistant",
            "content": None,
            "reasoning_details": details,
            "tool_calls": [signed],
        }
    ]


@pytest.mark.parametrize("content", [3, [3]])
def test_content_that_is_neither_text_nor_parts_is_the_models_failure(content: Any) -> None:
    with pytest.raises(ModelError, match="content"):
        response({"content": content})


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert response({"content": parts}).output_text == "ab"


@pytest.mark.parametrize(
    ("finish_reason", "reason"),
    [
        ("length", "max_output_tokens"),
        ("model_length", "max_output_tokens"),
        ("content_filter", "content_filter"),
    ],
)
def test_an_answer_that_was_cut_says_so(finish_reason: str, reason: str) -> None:
    found = response({"content": "x"}, finish_reason=finish_reason)

    assert found.status == "incomplete"
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == reason


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None, "reasoning_tokens": None}])
def test_a_detail_of_the_usage_that_the_endpoint_does_not_report_is_unknown(details: Any) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    usage |= {"prompt_tokens_details": details, "completion_tokens_details": details}

    found = response({"content": "x"}, usage=usage).usage

    assert found is not None
    assert found.input_tokens_details.cached_tokens is None
    assert found.output_tokens_details.reasoning_tokens is None


def test_usage_takes_its_responses_names() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }

    found = response({"content": "x"}, usage=usage).usage

    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (5, 7, 12)
    assert found.input_tokens_details.cached_tokens == 3
    assert found.output_tokens_details.reasoning_tokens == 2


@pytest.mark.parametrize("finish_reason", ["abort", "error", "insufficient_system_resource"])
def test_an_answer_that_the_endpoint_broke_off_is_no_answer(finish_reason: str) -> None:
    with pytest.raises(ModelError, match="stopped in the middle of its answer") as caught:
        response({"content": "4"}, finish_reason=finish_reason)

    assert caught.value.retriable


def test_a_refusal_is_a_part_of_the_message() -> None:
    message = response({"content": None, "refusal": "no"}).output[0]

    assert isinstance(message, OutputMessage)
    assert [part.type for part in message.content] == ["refusal"]


def test_log_probabilities_stay_with_the_text() -> None:
    logprobs = {"content": [{"token": "x", "logprob": -0.1, "top_logprobs": []}]}

    message = response({"content": "x"}, logprobs=logprobs).output[0]

    assert isinstance(message, OutputMessage)
    assert message.model_dump()["content"][0]["logprobs"] == logprobs["content"]


def test_an_answer_without_choices_is_the_models_failure() -> None:
    with pytest.raises(ModelError, match="without any choice"):
        response({}, choices=[])


def test_what_was_asked_is_echoed() -> None:
    found = response({"content": "x"}, params={"temperature": 0.5, "metadata": {"a": "b"}})

    assert (found.temperature, found.metadata, found.top_p) == (0.5, {"a": "b"}, None)


def test_what_is_built_unchecked_survives_the_wire_unchanged() -> None:
    tool = {"type": "function", "name": "f", "parameters": {}}
    message = {"content": "<think>a</think>x", "refusal": "r", "tool_calls": [call("{}", id="1")]}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}

    found = response(message, params={"tools": [tool]}, usage=usage, finish_reason="length")

    again = Response.model_validate_json(encode_json(found))
    assert again == found
    assert encode_json(again) == encode_json(found)


def test_every_item_has_an_id_of_its_own_in_every_response() -> None:
    content = "<think>a</think>x<think>b</think>y"
    message = {"content": content, "tool_calls": [call("{}"), call("{}")]}

    found = [response(message) for _ in range(2)]

    ids = [each.id for each in found] + [item.id for each in found for item in each.output]
    assert len(set(ids)) == len(ids) == 2 * (1 + 6)


def test_an_overflow_is_an_empty_truncated_response_that_says_why() -> None:
    params = ResponseCreateParams.model_validate({"input": [{"role": "assistant", "content": "a"}]})
    overflow = ContextOverflow("too long", Hop("m"))
    found = overflow_response(params, model="m", overflow=overflow)

    plain = orjson.loads(encode_json(found))
    assert plain["incomplete_details"] == {
        "reason": "max_output_tokens",
        "stopped_by": "context_full",
        "provider_message": "too long",
    }
    assert (found.output_text, found.status, found.usage) == ("", "incomplete", None)
    assert Response.model_validate(plain) == found
