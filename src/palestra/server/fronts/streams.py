"""Answers as event streams, for clients that ask for one: every event is sent at once.

A rollout needs whole answers, so nothing is generated piece by piece; what comes is a stream by
its form, and correct for a client that puts the pieces together. Pure functions.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from palestra.schema import ChatCompletion, encode_json, to_plain
from palestra.server.fronts.asked import JSON
from palestra.server.fronts.messages import MessagesAnswer

EVENT_STREAM = "text/event-stream"


def chat_events(completion: ChatCompletion, *, with_usage: bool) -> bytes:
    """The chunks of a chat completion: what was said, why it ended, and its usage if asked for."""
    plain = to_plain(completion)
    head = {key: plain[key] for key in ("id", "created", "model") if key in plain}
    head["object"] = "chat.completion.chunk"
    chunks: list[JSON] = []
    for choice in plain["choices"]:
        index = choice.get("index", 0)
        said = {"index": index, "delta": _delta(choice["message"]), "finish_reason": None}
        if choice.get("logprobs"):
            said["logprobs"] = choice["logprobs"]
        ended = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks += [{**head, "choices": [said]}, {**head, "choices": [ended]}]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": plain.get("usage")})
    return b"".join([*(b"data: " + encode_json(each) + b"\n\n" for each in chunks), _DONE])


_DONE = b"data: [DONE]\n\n"


def message_events(answer: MessagesAnswer) -> bytes:
    """The events of a message, block by block."""
    return b"".join(
        b"event: " + name.encode() + b"\ndata: " + encode_json({"type": name, **data}) + b"\n\n"
        for name, data in _message_events(to_plain(answer))
    )


def _delta(message: JSON) -> JSON:
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]}


def _message_events(plain: JSON) -> Iterator[tuple[str, JSON]]:
    usage = plain["usage"]
    begun = {**plain, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    yield "message_start", {"message": begun}
    for index, block in enumerate(plain["content"]):
        empty, deltas = _in_pieces(block)
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    ended = {"stop_reason": plain["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": ended, "usage": {"output_tokens": usage["output_tokens"]}}
    yield "message_stop", {}


def _in_pieces(block: JSON) -> tuple[JSON, Iterable[JSON]]:
    """A block without what it says, and what it says."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        thinking: Any = {"type": "thinking_delta", "thinking": block["thinking"]}
        return {**block, "thinking": ""}, [thinking]
    written = encode_json(block["input"]).decode()
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]
