"""Chat Completions and Messages, to the Responses API and back, as pure functions."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.errors import RowError
from palestra.schema import ChatCreateParams, Response, encode_json, to_plain
from palestra.server.fronts.asked import without_tokens
from palestra.server.fronts.chat import completion_from_response, params_from_chat
from palestra.server.fronts.messages import (
    MessagesRequest,
    chat_events,
    message_events,
    message_from_response,
    params_from_messages,
)

TOKENS = {
    "prompt_token_ids": [1, 2],
    "generation_token_ids": [3],
    "generation_log_probs": [-0.5],
}
WEATHER = {"name": "get_weather", "parameters": {"type": "object"}}


def from_chat(messages: list[Any], **asked: Any) -> dict[str, Any]:
    body = ChatCreateParams.model_validate({"messages": messages, **asked})
    found: dict[str, Any] = to_plain(params_from_chat(body))
    return found


def from_messages(messages: list[Any], **asked: Any) -> dict[str, Any]:
    body = MessagesRequest.model_validate({"messages": messages, "max_tokens": 9, **asked})
    found: dict[str, Any] = to_plain(params_from_messages(body))
    return found


def response(*output: dict[str, Any], **more: Any) -> Response:
    plain = {"id": "resp_1", "created_at": 7.0, "model": "m", "output": list(output), **more}
    return Response.model_validate(plain)


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": text}]}


def said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "content": [part]}


def called(arguments: str = "{}", call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}


def tool_result(content: Any, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": content, **more}
    return {"role": "user", "content": [block]}


def pointer_of(error: RowError) -> str:
    return error.evidence.problems[0].pointer


def test_a_chat_conversation_becomes_items() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{ }"}}

    found = from_chat(
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "q"},
                                         {"type": "image_url", "image_url": {"url": "data:,x"}}]},
            {"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "t"},
        ]
    )["input"]  # fmt: skip

    assert [item["type"] for item in found] == [
        "message", "message", "reasoning", "message", "function_call", "function_call_output",
    ]  # fmt: skip
    assert found[1]["content"][1] == {"type": "input_image", "image_url": "data:,x"}
    assert found[4]["arguments"] == "{ }"


def test_chat_parameters_take_their_responses_names_and_others_pass() -> None:
    found = from_chat(
        [{"role": "user", "content": "q"}],
        max_tokens=5,
        max_completion_tokens=6,
        tools=[{"type": "function", "function": WEATHER}],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        reasoning_effort="low",
        logprobs=True,
        stop=["x"],
        seed=3,
        n=1,
    )

    del found["input"]
    assert found == {
        "max_output_tokens": 6,
        "tools": [{"type": "function", **WEATHER}],
        "tool_choice": {"type": "function", "name": "get_weather"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        "reasoning": {"effort": "low"},
        "include": ["message.output_text.logprobs"],
        "stop": ["x"],
        "seed": 3,
    }


@pytest.mark.parametrize(
    ("message", "asked", "pointer"),
    [
        ({"role": "function", "content": "x"}, {}, "/messages/0/role"),
        ({"role": "tool", "content": "x"}, {}, "/messages/0/tool_call_id"),
        ({"role": "user", "content": "x"}, {"n": 2}, "/n"),
        ({"role": "user", "content": "x"}, {"tools": [{"type": "web"}]}, "/tools/0"),
        ({"role": "user", "content": "x"}, {"user": 3}, "/user"),
        ({"role": "assistant", "content": [{"type": "file"}]}, {}, "/messages/0/content/0"),
        ({"role": "assistant", "content": [{"type": "text"}]}, {}, "/messages/0/content/0/text"),
        ({"role": "user", "content": [{"type": "text"}]}, {}, "/messages/0/content/0/text"),
        ({"role": "assistant", "audio": {"id": "a"}}, {}, "/messages/0/audio"),
        ({"role": "assistant", "function_call": {"name": "f"}}, {}, "/messages/0/function_call"),
    ],
)
def test_what_a_response_cannot_say_of_a_chat_is_refused_with_its_pointer(
    message: dict[str, Any], asked: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(RowError) as caught:
        from_chat([message], **asked)

    assert pointer_of(caught.value) == pointer


def test_a_response_becomes_a_chat_completion() -> None:
    usage = {
        "input_tokens": 5, "output_tokens": 7, "total_tokens": 12,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens_details": {"reasoning_tokens": 2},
    }  # fmt: skip

    found = to_plain(
        completion_from_response(response(thought("hm"), said("a"), called("{ }"), usage=usage))
    )

    (choice,) = found["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{ }"}}
        ],
    }
    assert found["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}
    assert found["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize(
    ("reason", "finish", "stop"),
    [
        ("max_output_tokens", "length", "max_tokens"),
        ("content_filter", "content_filter", "refusal"),
        (None, "stop", "end_turn"),
    ],
)
def test_why_an_answer_ended_has_a_word_in_each_protocol(
    reason: str | None, finish: str, stop: str
) -> None:
    found = response(said("a"), incomplete_details=reason and {"reason": reason})

    assert completion_from_response(found).choices[0].finish_reason == finish
    assert message_from_response(found).stop_reason == stop


def test_token_ids_are_on_the_message_and_go_back_to_the_last_item() -> None:
    found = response(thought("hm"), called(), {**called(call_id="c2"), **TOKENS})

    message = to_plain(completion_from_response(found))["choices"][0]["message"]
    items = from_chat([message])["input"]

    assert {name: message[name] for name in TOKENS} == TOKENS
    assert {name: items[-1][name] for name in TOKENS} == TOKENS
    assert not TOKENS.keys() & items[0].keys()


def test_token_ids_are_on_an_anthropic_message_too() -> None:
    found = response(said("a"), {**called(), **TOKENS})

    answer = orjson.loads(encode_json(message_from_response(found)))
    items = from_messages([{"role": "assistant", "content": answer["content"], **TOKENS}])["input"]

    assert {name: answer[name] for name in TOKENS} == TOKENS
    assert {name: items[-1][name] for name in TOKENS} == TOKENS


@pytest.mark.parametrize(
    "thought_of_a_provider",
    [
        {"summary": [], "reasoning_details": [{"type": "reasoning.encrypted", "data": "A"}]},
        {
            "summary": [{"type": "summary_text", "text": "hm"}],
            "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
        },
        {
            "summary": [
                {
                    "type": "summary_text",
                    "text": "hm",
                    "chat_part": {"type": "thinking", "thinking": "hm", "closed": True},
                }
            ]
        },
    ],
)
def test_what_only_a_provider_can_read_goes_back_through_an_anthropic_client(
    thought_of_a_provider: dict[str, Any],
) -> None:
    reasoning = {"type": "reasoning", **thought_of_a_provider}

    content = to_plain(message_from_response(response(reasoning, called())))["content"]
    items = from_messages([{"role": "assistant", "content": content}])["input"]

    assert items[0] == reasoning


def test_an_anthropic_conversation_becomes_items() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}

    found = from_messages(
        [
            {"role": "user", "content": [{"type": "text", "text": "q"}, image]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "t"},
                {"type": "text", "text": "and?"},
            ]},
        ],
        system=[{"type": "text", "text": "s"}],
    )  # fmt: skip

    assert found["instructions"] == "s"
    assert [item["type"] for item in found["input"]] == [
        "message", "reasoning", "message", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert found["input"][0]["content"][1]["image_url"] == "data:image/png;base64,x"
    assert found["input"][3]["arguments"] == '{"a":1}'


def test_anthropic_parameters_take_their_responses_names() -> None:
    tool = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
    choice = {"type": "any", "disable_parallel_tool_use": True}

    found = from_messages(
        [{"role": "user", "content": "q"}],
        tools=[tool],
        tool_choice=choice,
        stop_sequences=["x"],
        top_k=4,
    )

    assert found["tools"] == [
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}
    ]
    assert (found["tool_choice"], found["parallel_tool_calls"]) == ("required", False)
    assert (found["max_output_tokens"], found["stop"], found["top_k"]) == (9, ["x"], 4)


@pytest.mark.parametrize("arguments", ['{ "a":1 }', "{}", "not json", "[1]"])
def test_arguments_come_back_as_the_model_wrote_them(arguments: str) -> None:
    content = to_plain(message_from_response(response(called(arguments))))["content"]

    items = from_messages([{"role": "assistant", "content": content}])["input"]

    assert isinstance(content[0]["input"], dict)
    assert items[0]["arguments"] == arguments


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ({"role": "system", "content": "x"}, "/messages/0/role"),
        ({"role": "user", "content": [{"type": "document"}]}, "/messages/0/content/0"),
        ({"role": "assistant", "content": [{"type": "image"}]}, "/messages/0/content/0"),
        ({"role": "user", "content": [{"type": "text"}]}, "/messages/0/content/0"),
        ({"role": "user", "content": ["x"]}, "/messages/0/content/0"),
        ({"role": "user", "content": 3}, "/messages/0/content"),
        ({"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]},
         "/messages/0/content/0/source"),
        ({"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
         "/messages/0/content/0/tool_use_id"),
        (tool_result([{"type": "document"}]), "/messages/0/content/0/content/0"),
        ({"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]},
         "/messages/0/content/0/id"),
    ],
)  # fmt: skip
def test_what_a_response_cannot_say_of_a_message_is_refused(
    message: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(RowError) as caught:
        from_messages([message])

    assert pointer_of(caught.value) == pointer


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("no such file", "Error: no such file"),
        (None, "Error"),
        ([{"type": "text", "text": "no"}], [{"type": "input_text", "text": "Error: no"}]),
        (
            [{"type": "image", "source": {"type": "url", "url": "data:,x"}}],
            [
                {"type": "input_text", "text": "Error"},
                {"type": "input_image", "image_url": "data:,x"},
            ],
        ),
    ],
)
def test_a_tool_that_failed_is_told_as_such(content: Any, output: Any) -> None:
    (item,) = from_messages([tool_result(content, is_error=True)])["input"]

    assert (item["type"], item["call_id"], item["output"]) == ("function_call_output", "c1", output)


def test_a_tool_result_keeps_its_text_and_images() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}

    (item,) = from_messages([tool_result([{"type": "text", "text": "t"}, image])])["input"]

    assert item["output"] == [
        {"type": "input_text", "text": "t"},
        {"type": "input_image", "image_url": "data:image/png;base64,x"},
    ]


def test_an_empty_anthropic_message_stays_a_turn() -> None:
    found = from_messages([{"role": "user", "content": []}, {"role": "assistant", "content": []}])

    assert [item["role"] for item in found["input"]] == ["user", "assistant"]


def test_how_an_anthropic_client_wants_its_answer_is_passed_on() -> None:
    output = {"effort": "low", "format": {"type": "json_schema", "schema": {}}}

    found = from_messages([], output_config=output, seed=3, thinking={"type": "adaptive"})

    del found["input"], found["max_output_tokens"]
    assert found == {
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {}}},
        "seed": 3,
    }


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"mcp_servers": [{"name": "x"}]}, "/mcp_servers"),
        ({"output_config": {"task_budget": {}}}, "/output_config/task_budget"),
        ({"system": [{"type": "image"}]}, "/system/0"),
    ],
)
def test_what_only_anthropics_servers_do_is_refused(asked: dict[str, Any], pointer: str) -> None:
    with pytest.raises(RowError) as caught:
        from_messages([], **asked)

    assert pointer_of(caught.value) == pointer


def test_reasoning_that_is_all_content_reaches_every_client() -> None:
    parts = [{"type": "reasoning_text", "text": "hm"}]
    found = response({"type": "reasoning", "summary": [], "content": parts}, said("a"))

    message = to_plain(completion_from_response(found))["choices"][0]["message"]
    assert message["reasoning_content"] == "hm"
    assert message_from_response(found).content[0]["thinking"] == "hm"


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


def test_thinking_among_the_parts_of_a_chat_is_reasoning_in_its_place() -> None:
    parts = [THOUGHT, {"type": "text", "text": "a"}]

    found = from_chat([{"role": "assistant", "content": parts}])["input"]

    assert [item["type"] for item in found] == ["reasoning", "message"]
    assert found[0]["summary"][0]["text"] == "hm"
    assert found[0]["summary"][0]["chat_part"] == THOUGHT


def test_what_only_its_provider_reads_goes_through_a_chat_client_and_back() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    signed = {**called(), "extra_content": {"google": {"thought_signature": "s"}}}
    found = response({**thought("hm"), "reasoning_details": details}, signed)

    message = to_plain(completion_from_response(found))["choices"][0]["message"]
    items = from_chat([message])["input"]

    assert items[0]["reasoning_details"] == message["reasoning_details"] == details
    assert items[1]["extra_content"] == signed["extra_content"]


def test_what_an_endpoint_says_of_its_own_goes_through_a_chat_client_and_back() -> None:
    parts = [{"type": "output_text", "text": "a", "annotations": []},
             {"type": "reference", "reference_ids": [1]}]  # fmt: skip
    found = response({"type": "message", "role": "assistant", "content": parts})

    message = to_plain(completion_from_response(found))["choices"][0]["message"]

    assert from_chat([message])["input"][0]["content"] == parts


def test_names_details_and_hints_of_a_chat_are_kept() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,x", "detail": "low"}, "uuid": "u"}
    odd = {"type": "image_url", "image_url": {"url": "data:,x", "min_pixels": 9}}

    (item,) = from_chat([{"role": "user", "name": "ann", "content": [image, odd]}])["input"]

    assert item["name"] == "ann"
    assert item["content"][0] == {
        "type": "input_image", "image_url": "data:,x", "detail": "low", "uuid": "u",
    }  # fmt: skip
    assert item["content"][1] == odd


def test_arguments_that_a_chat_client_gives_as_an_object_become_text() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}

    found = from_chat([{"role": "assistant", "content": None, "tool_calls": [call]}])["input"]

    assert found[0]["arguments"] == '{"a":1}'


def test_a_message_goes_to_an_endpoint_without_token_ids_and_nulls() -> None:
    message = {"role": "assistant", "content": None, "name": None, "tool_calls": None, **TOKENS}

    assert without_tokens(message) == {"role": "assistant", "content": None}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
TURNS = st.builds(
    lambda thoughts, text, arguments: [
        *([thought(thoughts)] if thoughts else []),
        *([said(text)] if text else []),
        *(called(each, f"c{index}") for index, each in enumerate(arguments)),
    ],
    st.one_of(st.none(), TEXT),
    st.one_of(st.none(), TEXT),
    st.lists(st.one_of(TEXT, st.just('{"a": 1}')), max_size=3),
).filter(bool)


def plain_turn(items: list[Any]) -> list[Any]:
    """Items without what no chat holds."""
    kept = ("type", "summary", "content", "name", "arguments", "call_id", *TOKENS)
    return [{key: item[key] for key in kept if key in item} for item in items]


@given(TURNS)
def test_a_turn_goes_through_a_chat_client_and_back_unchanged(turn: list[Any]) -> None:
    found = response(*turn[:-1], {**turn[-1], **TOKENS})

    message = orjson.loads(encode_json(completion_from_response(found).choices[0].message))

    assert plain_turn(from_chat([message])["input"]) == plain_turn(to_plain(found)["output"])


@given(TURNS)
def test_a_turn_goes_through_an_anthropic_client_and_back_unchanged(turn: list[Any]) -> None:
    found = response(*turn)

    content = orjson.loads(encode_json(message_from_response(found)))["content"]

    again = from_messages([{"role": "assistant", "content": content}])["input"]
    assert plain_turn(again) == plain_turn(to_plain(found)["output"])


def test_a_chat_stream_says_it_all_and_then_why_it_ended() -> None:
    completion = completion_from_response(response(said("a"), called()))

    events = chat_events(completion, with_usage=True).decode().split("\n\n")

    first, last, usage = (orjson.loads(event.removeprefix("data: ")) for event in events[:3])
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"]["content"] == "a"
    assert first["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert first["choices"][0]["finish_reason"] is None
    assert last["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    assert usage["choices"] == []
    assert events[3:] == ["data: [DONE]", ""]


def test_a_message_stream_has_every_block_between_start_and_stop() -> None:
    answer = message_from_response(response(thought("hm"), said("a"), called('{"x":1}')))

    events = message_events(answer).decode().strip().split("\n\n")

    assert [event.split("\n")[0].removeprefix("event: ") for event in events] == [
        "message_start",
        *["content_block_start", "content_block_delta", "content_block_stop"] * 3,
        "message_delta",
        "message_stop",
    ]


def test_what_the_endpoint_said_of_a_full_context_stays_beside_the_reason() -> None:
    details = {"reason": "max_output_tokens", "provider_message": "4097 tokens are too many"}

    [choice] = completion_from_response(response(incomplete_details=details)).choices

    assert to_plain(choice)["provider_message"] == "4097 tokens are too many"
    assert choice.finish_reason == "length"
