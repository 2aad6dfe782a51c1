"""A conversation that goes to the chat and comes back has lost nothing.

Both sides are brought to one form: a list of turns, in which a turn of the model is its blocks
of reasoning, its text and its tool calls, however many items they were.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import given, settings
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
)

TAGS = ConversionSettings()
PARSER = ConversionSettings(uses_reasoning_parser=True)

texts = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=8)
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
                own = {"blocks": [], "text": "", "refusal": "", "calls": []}
                turns.append(own)
            add_own(own, item)
    return turns


def add_own(own: dict[str, Any], item: Any) -> None:
    if isinstance(item, Reasoning):
        own["blocks"] += [part.text for part in item.summary]
    elif isinstance(item, FunctionCall):
        own["calls"].append((item.call_id, item.name, item.arguments))
    else:
        own["text"] += item.text
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


def there_and_back(
    conversation: list[Any], wanted: ConversionSettings
) -> tuple[list[Any], list[Any]]:
    params = ResponseCreateParams.model_validate({"input": conversation})
    request = to_chat_request(params, model="m", settings=wanted)
    return turns_of(params.input), turns_back(request["messages"], wanted)


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
    assert after == before
