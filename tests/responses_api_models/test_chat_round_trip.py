"""A conversation that goes to the chat and comes back has lost nothing.

What "nothing" is. A conversation is a list of turns. A turn that the model heard is its role (or
the id of the call it answers) and its parts, in order. A turn that the model spoke is what one
chat message holds: its reasoning and its text in the order in which they alternate, its tool calls
in order with ids, names and arguments to the character, and its refusal.

What a chat message has no place for, and what therefore may change:

- how many items or parts the text of one turn was (`["a", "b"]` comes back as `["ab"]`);
- whether a call stood before or after the turn's text, and no text at all for the empty one;
- ids and statuses of items, annotations and log-probabilities;
- with a reasoning parser: where reasoning stood within the text, and the bounds of its blocks,
  which are joined by a blank line.

A text that itself holds `<think>` tags is read as what it looks like.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from palestra.responses_api_models.chat import ConversionSettings, to_chat_request, to_response
from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    OutputText,
    Reasoning,
    Refusal,
    ResponseCreateParams,
    decode_completion,
    encode_json,
)

TAGS = ConversionSettings()
PARSER = ConversionSettings(uses_reasoning_parser=True)
NO_DEVELOPER = ConversionSettings(replace_developer_role_with_system=True)

TAG_LETTERS = st.sampled_from(["<", ">", "/", "think", "<thin", "k>"])

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.lists(TAG_LETTERS, max_size=3).map("".join),
)
ids = st.sampled_from(["call_1", "call_2", "call_3"])


def heard_parts() -> st.SearchStrategy[Any]:
    images = st.fixed_dictionaries(
        {"type": st.just("input_image"), "image_url": texts},
        optional={"detail": st.sampled_from(["low", "high"])},
    )
    return st.one_of(st.builds(lambda t: {"type": "input_text", "text": t}, texts), images)


def items() -> st.SearchStrategy[Any]:
    content = st.one_of(texts, st.lists(heard_parts(), max_size=3))
    said = st.lists(texts.map(lambda t: {"type": "output_text", "text": t}), max_size=2)
    return st.one_of(
        st.builds(
            lambda role, content: {"role": role, "content": content},
            st.sampled_from(["user", "system", "developer"]),
            content,
        ),
        st.builds(
            lambda content, refusal: {
                "role": "assistant",
                "type": "message",
                "content": [*content, *({"type": "refusal", "refusal": r} for r in refusal)],
            },
            said,
            st.lists(texts, max_size=1),
        ),
        texts.map(lambda text: {"role": "assistant", "content": text}),
        st.lists(texts, max_size=3).map(
            lambda blocks: {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": block} for block in blocks],
            }
        ),
        st.builds(
            lambda name, arguments, call_id: {
                "type": "function_call",
                "name": name,
                "arguments": arguments,
                "call_id": call_id,
            },
            texts,
            texts,
            ids,
        ),
        st.builds(
            lambda call_id, output: {
                "type": "function_call_output",
                "call_id": call_id,
                "output": output,
            },
            ids,
            content,
        ),
    )


def turns_of(conversation: Sequence[Any]) -> list[Any]:
    """The common form of items."""
    turns: list[Any] = []
    own: dict[str, Any] | None = None
    for item in conversation:
        if isinstance(item, FunctionCallOutput):
            own = None
            turns.append(("tool", item.call_id, parts_of(item.output)))
        elif isinstance(item, Message) and item.role != "assistant":
            own = None
            turns.append((item.role, "", parts_of(item.content)))
        else:
            if own is None:
                own = {"spoken": [], "blocks": [], "text": "", "refusal": "", "calls": []}
                turns.append(own)
            add_own(own, item)
    return turns


def add_own(own: dict[str, Any], item: Any) -> None:
    if isinstance(item, Reasoning):
        blocks = [part.text for part in item.summary]
        own["blocks"] += blocks
        own["spoken"] += [(True, block) for block in blocks]
    elif isinstance(item, FunctionCall):
        own["calls"].append((item.call_id, item.name, item.arguments))
    else:
        own["text"] += item.text
        if own["spoken"] and not own["spoken"][-1][0]:
            own["spoken"][-1] = (False, own["spoken"][-1][1] + item.text)
        elif item.text:
            own["spoken"].append((False, item.text))
        if not isinstance(item.content, str):
            own["refusal"] += "".join(p.refusal for p in item.content if isinstance(p, Refusal))


def parts_of(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [content]
    return [part_of(part) for part in content]


def part_of(part: Any) -> Any:
    if isinstance(part, InputText | OutputText):
        return part.text
    if isinstance(part, InputImage):
        return (part.image_url, part.detail)
    if part["type"] == "input_image":
        return (part["image_url"], part.get("detail"))
    return part["text"]


def turns_back(messages: list[dict[str, Any]], wanted: ConversionSettings) -> list[Any]:
    """The common form of chat messages; the model's own are read as an answer would be."""
    turns: list[Any] = []
    for message in messages:
        if message["role"] == "assistant":
            (turn,) = turns_of(answered(message, wanted))
            turns.append(turn)
            continue
        content = message["content"]
        parts = [content] if isinstance(content, str) else [chat_part(p) for p in content]
        turns.append((message["role"], message.get("tool_call_id", ""), parts))
    return turns


def answered(message: dict[str, Any], wanted: ConversionSettings) -> list[Any]:
    completion = decode_completion(orjson.dumps({"choices": [{"message": message}]}))
    params = ResponseCreateParams(input="")
    return to_response(completion, params, model="m", settings=wanted).output


def chat_part(part: dict[str, Any]) -> Any:
    if part["type"] == "image_url":
        return (part["image_url"]["url"], part["image_url"].get("detail"))
    return part["text"]


def holds_tags(turns: list[Any]) -> bool:
    """Whether some text would be read as reasoning, or some block as ended."""
    own = [turn for turn in turns if isinstance(turn, dict)]
    written = [text for turn in own for _, text in turn["spoken"]] + [turn["text"] for turn in own]
    return any(tag in text for text in written for tag in ("<think>", "</think>"))


def there_and_back(
    conversation: list[Any], wanted: ConversionSettings
) -> tuple[list[Any], list[Any]]:
    params = ResponseCreateParams.model_validate({"input": conversation})
    before = turns_of(params.input)
    assume(not holds_tags(before))
    request = to_chat_request(params, model="m", settings=wanted)
    # As the endpoint gets it: what is no JSON would be lost here.
    messages = orjson.loads(encode_json(request))["messages"]
    return before, turns_back(messages, wanted)


@settings(deadline=None)
@given(st.lists(items(), max_size=8))
def test_a_round_trip_through_tags_loses_nothing(conversation: list[Any]) -> None:
    before, after = there_and_back(conversation, TAGS)

    assert after == before


@settings(deadline=None)
@given(st.lists(items(), max_size=8))
def test_a_round_trip_through_reasoning_fields_keeps_every_block(conversation: list[Any]) -> None:
    before, after = there_and_back(conversation, PARSER)

    for turns in (before, after):
        for turn in turns:
            if isinstance(turn, dict):
                # One field holds all blocks of a turn; an empty one is as good as none.
                turn["blocks"] = "\n\n".join(turn["blocks"])
                del turn["spoken"]
    assert after == before


@settings(deadline=None)
@given(st.lists(items(), max_size=8))
def test_a_developer_turned_system_is_all_that_the_replacement_changes(
    conversation: list[Any],
) -> None:
    before, after = there_and_back(conversation, NO_DEVELOPER)

    assert after == [
        ("system", *turn[1:]) if isinstance(turn, tuple) and turn[0] == "developer" else turn
        for turn in before
    ]


BLOCK = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=8)
SPOKEN = st.lists(st.one_of(BLOCK, BLOCK.map(lambda text: f"<think>{text}</think>"))).map("".join)


@settings(deadline=None)
@given(SPOKEN, st.booleans())
def test_what_the_model_said_goes_back_to_it_to_the_character(text: str, calls: bool) -> None:
    called = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{ }"}}]
    message = {"role": "assistant", "content": text, **({"tool_calls": called} if calls else {})}

    params = ResponseCreateParams(input=answered(message, TAGS))
    (again,) = to_chat_request(params, model="m", settings=TAGS)["messages"]

    assert {**again, "content": again["content"] or ""} == message
