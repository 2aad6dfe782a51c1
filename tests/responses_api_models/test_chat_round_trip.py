"""A conversation that goes to the chat and comes back has lost nothing.

What "nothing" is. A conversation is a list of turns. A turn that the model heard is its role (or
the id of the call it answers), its speaker's name, and its parts, in order, with whatever else
they say. A turn that the model spoke is what one chat message holds: its reasoning, its text and
its endpoint's own parts in the order in which they alternate, its tool calls in order with ids,
names, signatures and arguments to the character, its refusal, its name, and what only the
provider can read of its reasoning.

What a chat message has no place for, and what therefore may change:

- how many items or parts the text of one turn was (`["a", "b"]` comes back as `["ab"]`, and none
  as the empty text);
- whether a call stood before or after the turn's text, and no text at all for the empty one;
- ids, statuses and phases of items, fields that no protocol knows, annotations and
  log-probabilities;
- the summary of reasoning that is also given in full;
- with a reasoning parser: where reasoning stood within the text, and the bounds of its blocks,
  which are joined by a blank line. Reasoning that an endpoint gave as a part keeps its place.

A text that itself holds `<think>` tags is read as what it looks like.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import assume, given
from hypothesis import strategies as st

from palestra.responses_api_models.chat import ConversionSettings, to_chat_request, to_response
from palestra.schema import (
    ChatCreateParams,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    Refusal,
    ResponseCreateParams,
    SummaryText,
    decode_completion,
    encode_json,
    to_plain,
)
from palestra.server.fronts.asked import without_tokens
from palestra.server.fronts.chat import params_from_chat

TAGS = ConversionSettings()
PARSER = ConversionSettings(uses_reasoning_parser=True)
NO_DEVELOPER = ConversionSettings(replace_developer_role_with_system=True)

TAG_LETTERS = st.sampled_from(["<", ">", "/", "think", "<thin", "k>"])

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.lists(TAG_LETTERS, max_size=3).map("".join),
)
ids = st.sampled_from(["call_1", "call_2", "call_3"])
secrets = st.just([{"type": "reasoning.encrypted", "data": "x"}])


def record(fixed: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    """An object of JSON; plain values stand for themselves."""
    own = {
        name: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for name, value in fixed.items()
    }
    return st.fixed_dictionaries(own, optional=optional)


# What a Responses client sends.

UNKNOWN = {"phase": st.just("commentary"), "_note": texts, "id": st.just("x")}
HINTS = {"cache_control": st.just({"type": "ephemeral"}), "id": st.none()}

heard_parts = st.one_of(
    record({"type": "input_text", "text": texts}, HINTS),
    record(
        {"type": "input_image", "image_url": texts},
        {"detail": st.sampled_from(["low", "high", "auto"]), **HINTS},
    ),
)
heard_content = st.one_of(texts, st.lists(heard_parts, max_size=3))
said_parts = st.one_of(
    record({"type": "output_text", "text": texts, "annotations": st.just([])}),
    record({"type": "refusal", "refusal": texts}),
    record({"type": "reference", "reference_ids": st.just([1])}),
)
thought_parts = st.one_of(
    texts.map(lambda t: {"type": "thinking", "thinking": [{"type": "text", "text": t}]}),
    texts.map(lambda t: {"type": "reasoning", "summary": [{"type": "summary_text", "text": t}]}),
    texts.map(lambda t: {"type": "reasoning", "text": t, "signature": "s"}),
)


def words_of(part: Any) -> str:
    words = part.get("thinking") or part.get("summary") or part.get("text") or ""
    return words if isinstance(words, str) else "".join(each["text"] for each in words)


blocks = st.one_of(
    record({"type": "summary_text", "text": texts}),
    thought_parts.map(
        lambda part: {"type": "summary_text", "text": words_of(part), "chat_part": part}
    ),
)
reasoning = st.one_of(
    record(
        {"type": "reasoning", "summary": st.lists(blocks, max_size=3)},
        {"reasoning_details": secrets, "status": st.just("completed"), **UNKNOWN},
    ),
    record(
        {
            "type": "reasoning",
            "summary": st.lists(record({"type": "summary_text", "text": texts}), max_size=1),
            "content": st.lists(record({"type": "reasoning_text", "text": texts}), max_size=2),
        }
    ),
)
own_items = st.one_of(
    reasoning,
    record(
        {
            "type": "message",
            "role": "assistant",
            "content": st.one_of(texts, st.lists(said_parts, max_size=3)),
        },
        UNKNOWN | {"name": st.just("bob")},
    ),
    record(
        {"type": "function_call", "name": texts, "arguments": texts, "call_id": ids},
        UNKNOWN | {"extra_content": st.just({"google": {"thought_signature": "s"}})},
    ),
)
heard_items = st.one_of(
    record(
        {"role": st.sampled_from(["user", "system", "developer"]), "content": heard_content},
        UNKNOWN | {"name": st.just("ann"), "type": st.just("message")},
    ),
    record({"type": "function_call_output", "call_id": ids, "output": heard_content}, UNKNOWN),
)
conversations = st.lists(st.one_of(own_items, own_items, heard_items), max_size=8)


# The common form of a conversation.


def turns_of(conversation: Sequence[Any]) -> list[Any]:
    turns: list[Any] = []
    own: dict[str, Any] | None = None
    for item in conversation:
        if isinstance(item, FunctionCallOutput):
            own = None
            turns.append(("tool", item.call_id, "", heard(item.output)))
        elif isinstance(item, Message) and item.role != "assistant":
            own = None
            name = (item.model_extra or {}).get("name") or ""
            turns.append((item.role, "", name, heard(to_plain(item)["content"])))
        else:
            if own is None:
                own = {"spoken": [], "refusal": "", "calls": [], "secrets": None, "name": ""}
                turns.append(own)
            add_own(own, item)
    return turns


def add_own(own: dict[str, Any], item: Any) -> None:
    extra = item.model_extra or {}
    if isinstance(item, Reasoning):
        own["secrets"] = extra.get("reasoning_details") or own["secrets"]
        own["spoken"] += thoughts_of(item)
    elif isinstance(item, FunctionCall):
        signature = extra.get("extra_content")
        own["calls"].append((item.call_id, item.name, item.arguments, signature))
    else:
        own["name"] = extra.get("name") or own["name"]
        parts = [OutputText(text=item.content)] if isinstance(item.content, str) else item.content
        for part in parts:
            if isinstance(part, OutputText):
                own["spoken"].append(("text", part.text))
            elif isinstance(part, Refusal):
                own["refusal"] += part.refusal
            else:
                own["spoken"].append(("part", to_plain(part)))
        own["spoken"] = together(own["spoken"])


def thoughts_of(item: Reasoning) -> list[Any]:
    full = [("thought", part["text"]) for part in item.content or []]
    return full if any(text for _, text in full) else [thought_of(each) for each in item.summary]


def thought_of(block: SummaryText) -> Any:
    part = (block.model_extra or {}).get("chat_part")
    return ("thought", block.text) if part is None else ("thought part", part)


def together(spoken: list[Any]) -> list[Any]:
    """Texts without anything between them are one; the empty text is none."""
    found: list[Any] = []
    for kind, said in spoken:
        if kind == "text" and found and found[-1][0] == "text":
            found[-1] = ("text", found[-1][1] + said)
        elif kind != "text" or said:
            found.append((kind, said))
    return found


def heard(content: Any) -> list[Any]:
    """Parts of an input, of a Responses client or of a chat."""
    if isinstance(content, str):
        return [{"text": content}]
    return [heard_part(part) for part in content] or [{"text": ""}]


def heard_part(part: Any) -> Any:
    found = {name: value for name, value in part.items() if name != "type" and value is not None}
    if part["type"] == "image_url":
        found["detail"] = part["image_url"].get("detail")
        found["image_url"] = part["image_url"]["url"]
    return {name: value for name, value in found.items() if value is not None}


def turns_back(messages: list[dict[str, Any]], wanted: ConversionSettings) -> list[Any]:
    """The common form of chat messages; the model's own are read as an answer would be."""
    turns: list[Any] = []
    for message in messages:
        name = message.get("name", "")
        if message["role"] == "assistant":
            (turn,) = turns_of(answered(message, wanted))
            turns.append(turn | {"name": name})
            continue
        call_id = message.get("tool_call_id", "")
        turns.append((message["role"], call_id, name, heard(message["content"])))
    return turns


def answered(message: dict[str, Any], wanted: ConversionSettings) -> list[Any]:
    completion = decode_completion(orjson.dumps({"choices": [{"message": message}]}))
    params = ResponseCreateParams(input="")
    return to_response(completion, params, model="m", settings=wanted).output


def holds_tags(turns: list[Any]) -> bool:
    """Whether some text would be read as reasoning, or some block as ended."""
    own = [turn["spoken"] for turn in turns if isinstance(turn, dict)]
    written = [said for spoken in own for kind, said in spoken if kind in {"text", "thought"}]
    # With a parser, what stood around a thought is one text.
    written += ["".join(said for kind, said in spoken if kind == "text") for spoken in own]
    return any(tag in text for text in written for tag in ("<think>", "</think>"))


def sent(conversation: list[Any], wanted: ConversionSettings) -> tuple[list[Any], list[Any]]:
    """The turns before, and the messages as the endpoint gets them: no JSON would be lost there."""
    params = ResponseCreateParams.model_validate({"input": conversation})
    before = turns_of(params.input)
    assume(not holds_tags(before))
    request = to_chat_request(params, model="m", settings=wanted)
    return before, orjson.loads(encode_json(request))["messages"]


@given(conversations)
def test_a_round_trip_through_tags_loses_nothing(conversation: list[Any]) -> None:
    before, messages = sent(conversation, TAGS)

    assert turns_back(messages, TAGS) == before


@given(conversations)
def test_a_round_trip_through_reasoning_fields_keeps_every_block(conversation: list[Any]) -> None:
    before, messages = sent(conversation, PARSER)

    assert in_a_field(turns_back(messages, PARSER)) == in_a_field(before)


def in_a_field(turns: list[Any]) -> list[Any]:
    """One field holds all blocks of a turn that were no parts; an empty one is as good as none."""
    return [
        turn
        if isinstance(turn, tuple)
        else turn
        | {
            "thoughts": "\n\n".join(said for kind, said in turn["spoken"] if kind == "thought"),
            "spoken": together([each for each in turn["spoken"] if each[0] != "thought"]),
        }
        for turn in turns
    ]


@given(conversations)
def test_a_developer_turned_system_is_all_that_the_replacement_changes(
    conversation: list[Any],
) -> None:
    before, messages = sent(conversation, NO_DEVELOPER)

    assert turns_back(messages, NO_DEVELOPER) == [
        ("system", *turn[1:]) if isinstance(turn, tuple) and turn[0] == "developer" else turn
        for turn in before
    ]


@given(conversations)
def test_no_endpoint_is_sent_a_field_that_it_may_not_know(conversation: list[Any]) -> None:
    _, messages = sent(conversation, TAGS)

    known = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal"}
    for message in messages:
        assert message.keys() <= known | {"reasoning_details"}
        assert all(value is not None for name, value in message.items() if name != "content")


BLOCK = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=8)
SPOKEN = st.lists(st.one_of(BLOCK, BLOCK.map(lambda text: f"<think>{text}</think>"))).map("".join)


@given(SPOKEN, st.booleans())
def test_what_the_model_said_goes_back_to_it_to_the_character(text: str, calls: bool) -> None:
    called = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{ }"}}]
    message = {"role": "assistant", "content": text, **({"tool_calls": called} if calls else {})}

    params = ResponseCreateParams(input=answered(message, TAGS))
    (again,) = to_chat_request(params, model="m", settings=TAGS)["messages"]

    assert {**again, "content": again["content"] or ""} == message


# What a chat client sends.

chat_parts = st.one_of(
    record({"type": "text", "text": texts}, HINTS),
    record({"type": "input_audio", "input_audio": st.just({"data": "x", "format": "wav"})}),
    record(
        {
            "type": "image_url",
            "image_url": record({"url": texts}, {"detail": st.sampled_from(["low", "high"])}),
        },
        {"uuid": st.just("u")},
    ),
)
chat_content = st.one_of(texts, st.lists(chat_parts, max_size=3))
chat_calls = record(
    {
        "id": ids,
        "type": "function",
        "function": record({"name": texts, "arguments": texts}),
    },
    {"extra_content": st.just({"google": {"thought_signature": "s"}})},
)
NAMED = {"name": st.one_of(st.none(), st.just("ann"))}
chat_heard = st.one_of(
    record(
        {"role": st.sampled_from(["user", "system", "developer"]), "content": chat_content}, NAMED
    ),
    record({"role": "tool", "tool_call_id": ids, "content": chat_content}, {"name": st.none()}),
)
chat_said = record(
    {
        "role": "assistant",
        "content": st.one_of(
            st.none(),
            texts,
            st.lists(st.one_of(record({"type": "text", "text": texts}), thought_parts), max_size=3),
        ),
    },
    {
        "reasoning_content": st.one_of(st.none(), texts),
        "refusal": st.one_of(st.none(), texts),
        "tool_calls": st.one_of(st.none(), st.lists(chat_calls, max_size=3)),
        "reasoning_details": secrets,
        "audio": st.none(),
        "function_call": st.none(),
        **NAMED,
    },
)
# Two messages of the model in a row would come back as one.
chats = st.lists(st.tuples(st.lists(chat_heard, min_size=1, max_size=2), chat_said), max_size=3)


@given(chats)
def test_a_chat_goes_through_the_responses_api_and_back(turns: list[Any]) -> None:
    messages = [message for heard_ones, said in turns for message in [*heard_ones, said]]
    before = [message_form(without_tokens(message)) for message in messages]
    assume(not any(tag in text_in(each) for each in before for tag in ("<think>", "</think>")))

    params = params_from_chat(ChatCreateParams.model_validate({"messages": messages}))
    request = to_chat_request(params, model="m", settings=PARSER)

    after = orjson.loads(encode_json(request))["messages"]
    assert [message_form(message) for message in after] == before


def message_form(message: dict[str, Any]) -> dict[str, Any]:
    """The common form of a chat message: nothing is as good as an empty text or list."""
    found = {name: value for name, value in message.items() if value}
    found.pop("reasoning", None)  # the other spelling of `reasoning_content`
    content = message.get("content") or ""
    if message["role"] == "assistant":
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found["content"] = together(
            [("text", p["text"]) if p["type"] == "text" else ("part", p) for p in parts]
        )
    else:
        found["content"] = heard(content)
    return found


def text_in(message: dict[str, Any]) -> str:
    said = (
        [each[1] for each in message["content"] if each[0] == "text"]
        if (message["role"] == "assistant")
        else []
    )
    return "".join([*said, message.get("reasoning_content", "")])
