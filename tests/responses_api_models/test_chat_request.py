from typing import Any

import pytest

from palestra.errors import RowError
from palestra.responses_api_models.chat import ConversionSettings, to_chat_request
from palestra.schema import ResponseCreateParams

PARSER = ConversionSettings(uses_reasoning_parser=True)

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}


def request(settings: ConversionSettings | None = None, /, **params: Any) -> dict[str, Any]:
    parsed = ResponseCreateParams.model_validate({"input": "hi", **params})
    return to_chat_request(parsed, model="m", settings=settings or ConversionSettings())


def messages(items: list[Any], settings: ConversionSettings | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request(settings, input=items)["messages"]
    return found


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def thought(*blocks: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": block} for block in blocks]
    return {"type": "reasoning", "id": "rs_1", "summary": summary}


def said(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def called(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "name": "f", "arguments": arguments, "call_id": call_id}


def chat_call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }


def pointer_of(error: RowError) -> str:
    return error.evidence.problems[0].pointer


def test_a_string_is_one_user_message_and_nothing_else_is_asked() -> None:
    assert request(input="hello") == {"model": "m", "messages": [user("hello")]}


def test_one_turn_of_the_model_folds_into_one_message() -> None:
    items = [user("q"), thought("a", "b"), said("x"), called("1"), called("2"), user("r")]

    assert messages(items) == [
        user("q"),
        {
            "role": "assistant",
            "content": "<think>a</think><think>b</think>x",
            "tool_calls": [chat_call("1"), chat_call("2")],
        },
        user("r"),
    ]


def test_a_turn_that_only_calls_tools_has_no_content() -> None:
    turn = messages([user("q"), called("1")])[1]

    assert turn == {"role": "assistant", "content": None, "tool_calls": [chat_call("1")]}


def test_an_empty_turn_stays_a_turn() -> None:
    assert messages([user("q"), said("")])[1] == {"role": "assistant", "content": ""}


def test_a_tool_output_names_its_call() -> None:
    output = {"type": "function_call_output", "call_id": "1", "output": "sunny"}

    tool = messages([user("q"), called("1"), output])[2]

    assert tool == {"role": "tool", "tool_call_id": "1", "content": "sunny"}


def test_a_tool_output_may_hold_an_image() -> None:
    parts = [{"type": "input_image", "image_url": "data:,x", "detail": "low"}]
    output = {"type": "function_call_output", "call_id": "1", "output": parts}

    image = {"type": "image_url", "image_url": {"url": "data:,x", "detail": "low"}}
    assert messages([called("1"), output])[1]["content"] == [image]


def test_with_a_reasoning_parser_every_block_goes_beside_the_text() -> None:
    turn = messages([thought("a", "b"), said("x")], PARSER)[0]

    assert turn["content"] == "x"
    assert turn["reasoning_content"] == turn["reasoning"] == "a\n\nb"


def test_with_a_reasoning_parser_tags_in_data_go_beside_the_text_too() -> None:
    turn = messages([{"role": "assistant", "content": "<think>a</think>x"}], PARSER)[0]

    assert (turn["content"], turn["reasoning"]) == ("x", "a")


def test_without_interleaved_reasoning_earlier_thoughts_stay_home() -> None:
    settings = ConversionSettings(uses_reasoning_parser=True, uses_interleaved_reasoning=False)

    assert messages([thought("a"), said("x")], settings) == [{"role": "assistant", "content": "x"}]


def test_reasoning_that_only_has_content_is_kept() -> None:
    item = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "a"}]}

    assert messages([item, said("x")])[0]["content"] == "<think>a</think>x"


def test_the_thoughts_themselves_go_before_their_summary() -> None:
    content = [{"type": "reasoning_text", "text": "all of it"}]

    turn = messages([{**thought("in short"), "content": content}, said("x")])[0]

    assert turn["content"] == "<think>all of it</think>x"


def test_reasoning_that_only_its_provider_can_read_is_refused() -> None:
    with pytest.raises(RowError) as caught:
        messages([user("q"), {**thought(), "encrypted_content": "gAAAA"}, said("x")])

    assert pointer_of(caught.value) == "/input/1/encrypted_content"


def test_sequential_reasoning_is_refused_where_it_is_not_allowed() -> None:
    settings = ConversionSettings(sequential_reasoning_allowed=False)

    with pytest.raises(RowError) as caught:
        messages([user("q"), thought("a"), thought("b")], settings)

    assert pointer_of(caught.value) == "/input/2"


def test_a_developer_is_a_system_where_templates_know_none() -> None:
    settings = ConversionSettings(replace_developer_role_with_system=True)
    item = {"role": "developer", "content": "d"}

    assert messages([item])[0]["role"] == "developer"
    assert messages([item], settings)[0]["role"] == "system"


def test_instructions_come_first_in_the_only_system_message() -> None:
    found = request(instructions="be kind", input=[{"role": "system", "content": "s"}, user("q")])

    assert found["messages"] == [{"role": "system", "content": "be kind\n\ns"}, user("q")]


def test_instructions_leave_a_message_its_name() -> None:
    named = {"role": "developer", "content": "d", "name": "ann"}
    plain = {"role": "system", "content": "s"}
    found = request(instructions="be kind", input=[plain, named, plain, user("q")])["messages"]

    assert found[0] == {"role": "system", "content": "be kind\n\ns"}
    assert found[1] == named
    assert [message["role"] for message in found[2:]] == ["system", "user"]


def test_instructions_alone_make_a_system_message() -> None:
    found = request(instructions="be kind")["messages"]

    assert found == [{"role": "system", "content": "be kind"}, user("hi")]


def test_text_and_image_parts_become_chat_parts() -> None:
    content = [
        {"type": "input_text", "text": "what is this?"},
        {"type": "input_image", "image_url": "http://x/y.png", "detail": "high"},
    ]

    assert messages([{"role": "user", "content": content}])[0]["content"] == [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "http://x/y.png", "detail": "high"}},
    ]


def test_a_single_text_part_is_plain_text() -> None:
    part = {"type": "input_text", "text": "t"}

    assert messages([{"role": "user", "content": [part]}]) == [user("t")]


def test_audio_comes_before_the_text_of_the_last_user_message() -> None:
    found = request(input=[user("a"), user("b")], metadata={"audio_data": "data:audio/wav;x"})

    audio = {"type": "audio_url", "audio_url": {"url": "data:audio/wav;x"}}
    assert found["messages"][1]["content"] == [audio, {"type": "text", "text": "b"}]


@pytest.mark.parametrize("metadata", [{"audio_path": "a.wav"}, {"audio_data": "data:,"}])
def test_audio_that_cannot_be_placed_is_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(RowError, match="/metadata/audio_"):
        request(input=[{"role": "system", "content": "s"}], metadata=metadata)


@pytest.mark.parametrize(
    ("items", "pointer"),
    [
        ([user("q"), {"type": "item_reference", "id": "x"}], "/input/1"),
        ([{"role": "user", "content": [{"type": "input_file"}]}], "/input/0/content/0"),
        ([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}], "/input/0/content/0"),
        ([{"role": "assistant", "content": [{"type": "input_file"}]}], "/input/0/content/0"),
        ([{"type": "function_call_output", "call_id": "1", "output": [1]}], "/input/0/output"),
    ],
)  # fmt: skip
def test_what_a_chat_lacks_is_refused_with_its_pointer(items: list[Any], pointer: str) -> None:
    with pytest.raises(RowError) as caught:
        messages(items)

    assert pointer_of(caught.value) == pointer


def test_what_several_speakers_are_called_is_kept() -> None:
    items = [{"role": "user", "content": "q", "name": "ann"}, {**said("x"), "name": "bob"}]

    assert [message["name"] for message in messages(items)] == ["ann", "bob"]


def test_no_parts_at_all_are_the_empty_text() -> None:
    output = {"type": "function_call_output", "call_id": "1", "output": []}

    found = messages([{"role": "user", "content": []}, called("1"), output])

    assert (found[0]["content"], found[2]["content"]) == ("", "")


def test_a_part_keeps_what_else_it_says_but_nulls() -> None:
    part = {"type": "input_text", "text": "t", "cache_control": {"type": "ephemeral"}, "id": None}

    assert messages([{"role": "user", "content": [part]}])[0]["content"] == [
        {"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}
    ]


ASKING = [
    ("previous_response_id", "resp_1"),
    ("conversation", "conv_1"),
    ("prompt", {"id": "p"}),
    ("background", True),
    ("truncation", "auto"),
    ("context_management", [{"type": "compaction"}]),
    ("max_tool_calls", 3),
    ("stream_options", {"include_usage": True}),
    ("n", 2),
    ("tool_choice", "required"),
]


@pytest.mark.parametrize(("name", "value"), ASKING)
def test_a_parameter_that_a_chat_has_no_word_for_is_refused(name: str, value: Any) -> None:
    with pytest.raises(RowError) as caught:
        request(**{name: value})

    assert pointer_of(caught.value) == f"/{name}"


def test_parameters_that_ask_for_nothing_are_no_obstacle() -> None:
    asked: dict[str, Any] = {name: None for name, _ in ASKING}
    nothing = asked | {
        "background": False,
        "truncation": "disabled",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto", "context": "auto", "mode": "standard"},
        "tool_choice": "auto",
    }

    assert request(**nothing).keys() == {"model", "messages"}


@pytest.mark.parametrize(
    ("params", "pointer"),
    [
        ({"include": ["message.output_text.logprobs", "x.y"]}, "/include/1"),
        ({"reasoning": {"effort": "low", "max_tokens": 9}}, "/reasoning/max_tokens"),
        ({"reasoning": {"context": "all_turns"}}, "/reasoning/context"),
        ({"text": {"tone": "warm"}}, "/text/tone"),
        ({"metadata": {"extra_body": '{"n": 2}'}}, "/metadata/extra_body"),
    ],
)
def test_what_is_asked_inside_of_a_parameter_is_not_dropped_either(
    params: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(RowError) as caught:
        request(**params)

    assert pointer_of(caught.value) == pointer


@pytest.mark.parametrize("name", ["user", "store", "service_tier", "prompt_cache_key"])
def test_what_a_chat_calls_the_same_passes(name: str) -> None:
    assert request(**{name: True if name == "store" else "x"})[name]


def test_tools_from_elsewhere_may_be_required() -> None:
    body = '{"tools": [{"type": "function", "function": {"name": "f"}}]}'

    assert request(metadata={"extra_body": body}, tool_choice="required")["tool_choice"]


def test_a_tool_loses_its_flat_form_and_strict() -> None:
    function = {key: WEATHER[key] for key in ("name", "description", "parameters")}

    assert request(tools=[WEATHER])["tools"] == [{"type": "function", "function": function}]


def test_a_hosted_tool_is_refused() -> None:
    with pytest.raises(RowError, match="/tools/1"):
        request(tools=[WEATHER, {"type": "web_search"}])


def test_tool_settings_are_not_sent_without_tools() -> None:
    assert request(tool_choice="auto", parallel_tool_calls=True).keys() == {"model", "messages"}


@pytest.mark.parametrize(
    ("choice", "chat_choice"),
    [
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
        ),
    ],
)
def test_every_form_of_tool_choice_has_its_chat_form(choice: Any, chat_choice: Any) -> None:
    assert request(tools=[WEATHER], tool_choice=choice)["tool_choice"] == chat_choice


def test_parameters_take_their_chat_names() -> None:
    found = request(
        max_output_tokens=9,
        temperature=0.5,
        top_p=0.9,
        top_logprobs=2,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}},
        seed=7,
        truncation="disabled",
        metadata={"note": "x"},
        stream=False,
    )

    del found["model"], found["messages"]
    schema = {"name": "n", "schema": {}, "strict": True}
    assert found == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "logprobs": True,
        "top_logprobs": 2,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": schema},
        "seed": 7,
    }


def test_a_row_goes_over_the_configuration_and_its_parameters_over_both() -> None:
    settings = ConversionSettings(
        extra_body={"top_k": 1, "min_p": 0.1, "temperature": 1.0},
        chat_template_kwargs={"enable_thinking": True, "a": 1},
    )
    metadata = {
        "extra_body": '{"top_k": 2, "max_tokens": 5}',
        "chat_template_kwargs": '{"enable_thinking": false}',
    }

    found = request(settings, metadata=metadata, temperature=0.0, max_output_tokens=6)

    assert (found["top_k"], found["min_p"]) == (2, 0.1)
    assert (found["temperature"], found["max_tokens"]) == (0.0, 6)
    assert found["chat_template_kwargs"] == {"enable_thinking": False, "a": 1}


def test_sampling_overrides_go_over_a_rows_parameters() -> None:
    settings = ConversionSettings(sampling_overrides={"temperature": 0.0, "top_k": 1})

    found = request(settings, temperature=1.0, metadata={"extra_body": '{"top_k": 9}'})

    assert (found["temperature"], found["top_k"]) == (0.0, 1)


def test_template_arguments_of_a_row_go_over_the_configurations_wherever_it_gives_them() -> None:
    settings = ConversionSettings(
        extra_body={"chat_template_kwargs": {"a": 1, "b": 1, "c": 1}},
        chat_template_kwargs={"b": 2, "c": 2},
    )
    metadata = {"extra_body": '{"chat_template_kwargs": {"c": 3}}'}

    found = request(settings, metadata=metadata)["chat_template_kwargs"]

    assert found == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("params", "pointer"),
    [
        ({"metadata": {"extra_body": '{"chat_template_kwargs": 3}'}},
         "/metadata/extra_body/chat_template_kwargs"),
        ({"chat_template_kwargs": [1]}, "/chat_template_kwargs"),
        ({"metadata": {"extra_body": '{"stream": true}'}}, "/metadata/extra_body"),
        ({"max_output_tokens": 0}, "/max_output_tokens"),
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_named(params: dict[str, Any], pointer: str) -> None:
    with pytest.raises(RowError) as caught:
        request(**params)

    assert pointer_of(caught.value) == pointer


@pytest.mark.parametrize("raw", ["{not json", "[1]", 3])
@pytest.mark.parametrize("key", ["extra_body", "chat_template_kwargs"])
def test_bad_json_in_metadata_is_named(key: str, raw: Any) -> None:
    with pytest.raises(RowError) as caught:
        request(metadata={key: raw})

    assert pointer_of(caught.value) == f"/metadata/{key}"
