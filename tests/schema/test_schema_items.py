"""Conversations come out as they went in, whatever they hold."""

import json
from datetime import UTC
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from palestra.errors import Outcome
from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    HostedTool,
    Item,
    Message,
    OutputMessage,
    OutputText,
    Reasoning,
    Response,
    ResponseCreateParams,
    SummaryText,
    UnknownItem,
    VerifyRequest,
    VerifyResponse,
    changed,
    encode_json,
    to_plain,
)

TEXT = st.text(max_size=30)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**53), 2**53)
VALUES = st.recursive(
    st.none() | st.booleans() | WHOLE | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
EXTRA = st.dictionaries(TEXT.map("x_".__add__), VALUES, max_size=2)
ODD = st.one_of(
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.sets(TEXT, max_size=1),
    st.dictionaries(st.integers(0, 9), TEXT, min_size=1, max_size=2),
    st.uuids(),
    st.sampled_from(Outcome),
    TEXT.map(str.encode),
)
"""Values that authors put into fields of their own, and that JSON does not have."""
TOKENS = st.fixed_dictionaries(
    {},
    optional={
        "prompt_token_ids": st.lists(st.integers(0, 9), max_size=3),
        "generation_token_ids": st.lists(st.integers(0, 9), max_size=3),
        "generation_log_probs": st.lists(st.none() | FINITE | WHOLE, max_size=3),
    },
)


def shaped(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A JSON object with these fields and some nobody knows."""
    known = {
        name: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for name, value in fields.items()
    }
    return st.builds(lambda a, b: {**a, **b}, EXTRA, st.fixed_dictionaries(known))


PARTS = st.one_of(
    shaped(type="input_text", text=TEXT),
    shaped(type="input_image", image_url=TEXT),
    shaped(type="output_text", text=TEXT, annotations=st.lists(VALUES, max_size=1)),
    shaped(type="refusal", refusal=TEXT),
    shaped(type="input_audio", data=VALUES),
)
ROLES = st.sampled_from(["user", "assistant", "system", "developer"])
PLAIN_ITEMS = st.one_of(
    shaped(role=ROLES, content=TEXT | st.lists(PARTS, max_size=2)),
    shaped(type="message", role=ROLES, content=TEXT | st.lists(PARTS, max_size=2)),
    shaped(type="function_call", name=TEXT, arguments=TEXT, call_id=TEXT),
    shaped(type="function_call_output", call_id=TEXT, output=TEXT | st.lists(VALUES, max_size=2)),
    shaped(type="reasoning", summary=st.lists(shaped(type="summary_text", text=TEXT), max_size=2)),
    shaped(type=st.sampled_from(["web_search_call", "mcp_call", "from_2030"]), of=VALUES),
)
ITEMS = st.builds(lambda item, tokens: {**item, **tokens}, PLAIN_ITEMS, TOKENS)
CONVERSATIONS = st.lists(ITEMS, max_size=4)
TOOLS = st.lists(
    shaped(type="function", name=TEXT, parameters=st.none() | st.dictionaries(TEXT, VALUES))
    | shaped(type="web_search"),
    max_size=2,
)
PARAMS = shaped(input=TEXT | CONVERSATIONS, tools=TOOLS, temperature=st.none() | FINITE)
RESPONSES = shaped(
    id=TEXT,
    created_at=WHOLE,
    model=TEXT,
    output=CONVERSATIONS,
    usage=st.none() | shaped(input_tokens=WHOLE, output_tokens=WHOLE, total_tokens=WHOLE),
)


@pytest.mark.slow
@given(PARAMS)
def test_create_params_come_out_as_they_went_in(params: dict[str, Any]) -> None:
    read = ResponseCreateParams.model_validate(params)

    assert json.loads(encode_json(read)) == params
    assert to_plain(read) == params


@given(RESPONSES)
def test_a_response_comes_out_as_it_went_in(response: dict[str, Any]) -> None:
    read = Response.model_validate(response)

    assert json.loads(encode_json(read)) == response


@pytest.mark.slow
@given(PARAMS, RESPONSES, EXTRA)
def test_a_verify_request_keeps_every_field_of_the_row(
    params: dict[str, Any], response: dict[str, Any], extra: dict[str, Any]
) -> None:
    row = {**extra, "responses_create_params": params, "response": response, "reward": 0.5}

    assert json.loads(encode_json(VerifyRequest.model_validate(row))) == row
    assert json.loads(encode_json(VerifyResponse.model_validate(row))) == row


def pairs(encoded: bytes) -> Any:
    """The value, objects as lists of pairs: their order counts."""
    return json.loads(encoded, object_pairs_hook=list)


@pytest.mark.slow
@given(PARAMS, RESPONSES, st.none() | ODD)
def test_a_trajectory_is_encoded_as_pydantic_dumps_it(
    params: dict[str, Any], response: dict[str, Any], odd: Any
) -> None:
    row = {"responses_create_params": params, "response": {**response, "x_odd": odd}}
    read = VerifyRequest.model_validate(row)
    dumped = read.model_dump(mode="json", exclude_unset=True, warnings=False)

    assert pairs(encode_json(read)) == pairs(orjson.dumps(dumped, option=orjson.OPT_NON_STR_KEYS))


@pytest.mark.slow
@given(RESPONSES, RESPONSES)
def test_a_changed_copy_is_what_pydantic_copies(one: dict[str, Any], other: dict[str, Any]) -> None:
    before, update = Response.model_validate(one), Response.model_validate(other).__dict__

    after = changed(before, {"output": update["output"], "user": "u"})

    expected = before.model_copy(update={"output": update["output"], "user": "u"})
    assert after == expected
    assert after.model_fields_set == expected.model_fields_set
    assert before == Response.model_validate(one)


class Marked(OutputMessage):
    """A message of an author's, with a field of its own."""

    mark: str = ""


def test_what_an_authors_own_item_adds_is_sent() -> None:
    said = Response.model_construct({"output"}, output=[Marked(content=[], mark="seen")])

    named = {"type": "message", "role": "assistant"}
    assert json.loads(encode_json(said)) == {"output": [{**named, "content": [], "mark": "seen"}]}


@pytest.mark.parametrize(
    "made",
    [
        FunctionCall(name="f", arguments="{}", call_id="c"),
        FunctionCallOutput(call_id="c", output="x"),
        OutputMessage(content=[OutputText(text="x")]),
        Reasoning(summary=[SummaryText(text="x")]),
    ],
    ids=lambda made: type(made).__name__,
)
def test_an_item_made_by_an_author_says_of_what_type_it_is(made: Item) -> None:
    sent = json.loads(encode_json(made))

    assert type(output_item(sent)) is type(made)
    assert encode_json(output_item(sent)) == encode_json(made)


@given(CONVERSATIONS)
def test_reading_twice_changes_nothing(items: list[dict[str, Any]]) -> None:
    once = ResponseCreateParams.model_validate({"input": items})
    again = ResponseCreateParams.model_validate(json.loads(encode_json(once)))

    assert again == once


def output_item(item: dict[str, Any]) -> Any:
    made = {"id": "r", "created_at": 0, "model": "m", "output": [item]}
    return Response.model_validate(made).output[0]


@pytest.mark.parametrize(
    ("item", "cls"),
    [
        ({"role": "assistant", "content": [{"type": "output_text", "text": "4"}]}, OutputMessage),
        ({"role": "assistant", "content": "4"}, Message),
        ({"role": "user", "content": "and 2 + 3?"}, Message),
        ({"type": "function_call", "name": "f", "arguments": "", "call_id": "1"}, FunctionCall),
        ({"type": "reasoning", "id": "rs", "summary": []}, Reasoning),
        ({"type": "image_generation_call", "result": "…"}, UnknownItem),
    ],
)
def test_an_output_item_is_read_as_what_it_is(item: dict[str, Any], cls: type) -> None:
    assert type(output_item(item)) is cls


def test_an_item_without_a_type_says_what_it_needs() -> None:
    with pytest.raises(ValidationError, match="needs a `type`, or a `role`"):
        ResponseCreateParams.model_validate({"input": [{"content": "hello"}]})


def test_a_tool_of_the_provider_passes_through() -> None:
    params = ResponseCreateParams.model_validate({"input": "", "tools": [{"type": "web_search"}]})

    assert isinstance(params.tools[0], HostedTool)


def test_streaming_is_refused() -> None:
    with pytest.raises(ValidationError, match="stream"):
        ResponseCreateParams.model_validate({"input": "", "stream": True})


def test_the_final_text_is_the_last_message_and_output_text_all_of_them() -> None:
    said = [
        {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        for text in ("let me see", "4")
    ]
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}
    made = {"id": "r", "created_at": 0, "model": "m", "output": [said[0], call, said[1]]}
    response = Response.model_validate(made)

    assert (response.final_text, response.output_text) == ("4", "let me see4")


def test_every_wire_model_keeps_what_it_does_not_know() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)
    read = adapter.validate_python({"input": "", "_ng_task_index": 3, "model_extra_field": 1})

    assert read.model_extra == {"_ng_task_index": 3, "model_extra_field": 1}
