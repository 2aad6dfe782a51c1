from typing import Any

import pytest

from palestra.errors import ModelRejectedRow
from palestra.responses_api_models.local_model.mending import (
    EngineRequest,
    call_schema,
    to_engine_request,
    with_calls,
)

CALL = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


ADD, SUB = tool("add", type="object"), tool("sub", type="object")


def mend(**fields: Any) -> EngineRequest:
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return to_engine_request(request, max_tokens=256, context_tokens=2048)


def offered(request: EngineRequest) -> list[str]:
    tools = request.body.get("chat_template_kwargs", {}).get("tools", [])
    return [entry["function"]["name"] for entry in tools]


def completion(content: str, reason: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def answered(content: str, request: EngineRequest, reason: str = "stop") -> dict[str, Any]:
    choice: dict[str, Any] = with_calls(completion(content, reason), request)["choices"][0]
    return choice


def test_a_request_without_a_limit_gets_the_default_one() -> None:
    assert mend().body["max_tokens"] == 256
    assert mend(max_tokens=None).body["max_tokens"] == 256


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_no_request_gets_more_than_the_context(field: str) -> None:
    assert mend(**{field: 10**12}).body[field] == 2048

    with pytest.raises(ModelRejectedRow, match=f"/{field}: at least 1, got -1"):
        mend(**{field: -1})


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_request_keeps_its_own_limit(field: str) -> None:
    body = mend(**{field: 7}).body

    assert {key: value for key, value in body.items() if key.startswith("max_")} == {field: 7}


def test_seed_and_sampling_go_through_untouched() -> None:
    asked = {"seed": 5, "temperature": 0.3, "top_p": 0.9}

    assert mend(**asked).body.items() >= asked.items()


def test_tools_reach_only_the_chat_template() -> None:
    request = mend(tools=[ADD, SUB], tool_choice="auto", parallel_tool_calls=True)

    assert offered(request) == ["add", "sub"]
    assert not request.body.keys() & {"tools", "tool_choice", "parallel_tool_calls"}
    assert "response_format" not in request.body


def test_tools_join_the_template_settings_of_the_row() -> None:
    request = mend(tools=[ADD], chat_template_kwargs={"x": 1})

    assert request.body["chat_template_kwargs"] == {"x": 1, "tools": [ADD]}


def test_tool_choice_none_offers_no_tools() -> None:
    assert offered(mend(tools=[ADD], tool_choice="none")) == []


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ("required", ["add", "sub"]),
        ({"type": "function", "function": {"name": "sub"}}, ["sub"]),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"function": {"name": "add"}}]},
            },
            ["add"],
        ),
    ],
)
def test_a_call_that_must_be_made_is_enforced_by_a_schema(choice: Any, left: list[str]) -> None:
    request = mend(tools=[ADD, SUB], tool_choice=choice)

    schema = request.body["response_format"]["json_schema"]["schema"]
    assert offered(request) == left
    assert [call["properties"]["name"]["const"] for call in schema["anyOf"]] == left
    assert request.call_enforced


def test_allowed_tools_that_need_not_be_called_are_only_narrowed() -> None:
    allowed = {"mode": "auto", "tools": [{"function": {"name": "add"}}]}

    request = mend(tools=[ADD, SUB], tool_choice={"allowed_tools": allowed})

    assert offered(request) == ["add"]
    assert not request.call_enforced


@pytest.mark.parametrize(
    "choice",
    [
        {"function": {"name": "mul"}},
        {"allowed_tools": {"tools": [ADD, {"function": {"name": "mul"}}]}},
        "sometimes",
        {"type": "other"},
    ],
)
def test_a_choice_that_fits_no_tool_is_refused(choice: Any) -> None:
    with pytest.raises(ModelRejectedRow, match=r"tool_choice .* tools: add\b"):
        mend(tools=[ADD], tool_choice=choice)


def test_a_tool_without_a_name_is_refused_with_a_pointer_to_it() -> None:
    with pytest.raises(ModelRejectedRow, match="/tools/1/function/name"):
        mend(tools=[ADD, {"type": "function", "function": {}}])


def test_references_of_a_tools_schema_follow_it_to_its_new_place() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}}
    moved = tool("go", properties={"to": {"$ref": "#/$defs/P"}}, **{"$defs": {"P": point}})

    schema = call_schema([ADD, moved])

    assert schema["$defs"]["1"]["properties"]["to"] == {"$ref": "#/$defs/1/$defs/P"}
    assert moved["function"]["parameters"]["properties"]["to"] == {"$ref": "#/$defs/P"}


def test_earlier_calls_and_their_outputs_become_text_even_when_malformed() -> None:
    function = {"name": "add", "arguments": "{broken"}
    history = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "no"},
    ]

    assert mend(messages=history).body["messages"] == [
        {
            "role": "assistant",
            "content": '<tool_call>\n{"name": "add", "arguments": {broken}\n</tool_call>',
        },
        {"role": "user", "content": "<tool_response>\nno\n</tool_response>"},
    ]


def test_text_parts_are_joined_and_an_image_is_refused() -> None:
    parts: list[dict[str, Any]] = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert (
        mend(messages=[{"role": "user", "content": parts}]).body["messages"][0]["content"] == "a\nb"
    )
    with pytest.raises(ModelRejectedRow, match="reads text only, not 'image_url'"):
        mend(messages=[{"role": "user", "content": [*parts, {"type": "image_url"}]}])


def test_a_call_in_the_text_becomes_a_tool_call() -> None:
    choice = answered(CALL, mend(tools=[ADD]))

    assert choice["message"]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert choice["message"]["content"] is None
    assert choice["finish_reason"] == "tool_calls"


def test_an_enforced_call_needs_no_tags() -> None:
    request = mend(tools=[ADD], tool_choice="required")

    choice = answered('{"name": "add", "arguments": {}}', request)

    assert choice["message"]["tool_calls"][0]["function"]["name"] == "add"


def test_a_call_cut_by_the_limit_stays_text_and_stays_cut() -> None:
    choice = answered('{"name": "add", "arg', mend(tools=[ADD], tool_choice="required"), "length")

    assert choice["message"]["content"] == '{"name": "add", "arg'
    assert choice["finish_reason"] == "length"


def test_without_parallel_calls_only_the_first_counts() -> None:
    choice = answered(CALL + CALL, mend(tools=[ADD], parallel_tool_calls=False))

    assert len(choice["message"]["tool_calls"]) == 1


def test_without_tools_nothing_is_read_as_a_call() -> None:
    assert answered(CALL, mend())["message"]["content"] == CALL


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "tool_calls": [{}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "add"}}]},
        {"role": "assistant", "tool_calls": [{"function": "add"}]},
        {"role": "user", "content": [{"type": "text"}]},
    ],
)
def test_a_message_that_lacks_a_field_is_the_rows_fault(message: dict[str, Any]) -> None:
    with pytest.raises(ModelRejectedRow, match=r"^/messages/0/"):
        mend(messages=[message])
