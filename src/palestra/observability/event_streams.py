"""Server-sent events of the three dialects: read them, find the last one, and join them to the
answer that was streamed.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, final

import orjson

from palestra.schema import JsonDict

DONE: Final = "[DONE]"
_LAST_EVENTS: Final = {
    "responses": frozenset(
        {"response.completed", "response.incomplete", "response.failed", "error"}
    ),
    "chat": frozenset({"error"}),
    "messages": frozenset({"message_stop", "error"}),
}


class StreamEvent(NamedTuple):
    """One event: its name, which is also the `type` of its data, and its data."""

    name: str
    data: Any

    def ends(self, dialect: str) -> bool:
        """Whether no further event of the answer follows."""
        if dialect == "chat":
            return bool(self.data == DONE)
        return self.name in _LAST_EVENTS[dialect]


@final
class EventReader:
    """Reads events from the chunks of a stream, wherever the chunks are cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Return the events that `chunk` completes."""
        text = (self._rest + chunk).replace(b"\r\n", b"\n")
        *blocks, self._rest = text.split(b"\n\n")
        return [event for block in blocks if (event := _event(block)) is not None]


def events_of(raw: bytes) -> list[StreamEvent]:
    """Return all events of a whole stream. The last may lack its blank line."""
    return EventReader().feed(raw + b"\n\n")


def _event(block: bytes) -> StreamEvent | None:
    name, data = "", []
    for line in block.split(b"\n"):
        key, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if key == b"event":
            name = text
        elif key == b"data":
            data.append(text)
    if not data:
        return StreamEvent(name, None) if name else None
    joined = "\n".join(data)
    try:
        value_of_data = orjson.loads(joined)
    except orjson.JSONDecodeError:
        return StreamEvent(name, joined)
    if not name and isinstance(value_of_data, dict):
        name = str(value_of_data.get("type") or "")
    return StreamEvent(name, value_of_data)


def joined_answer(dialect: str, events: Iterable[StreamEvent]) -> JsonDict | None:
    """Return the answer that the events of a stream make up; None when they make up none."""
    objects = [event for event in events if isinstance(event.data, dict)]
    if dialect == "responses":
        return _response(objects)
    return _completion(objects) if dialect == "chat" else _message(objects)


def _response(events: list[StreamEvent]) -> JsonDict | None:
    for event in reversed(events):
        response = event.data.get("response")
        if isinstance(response, dict):
            return response
        if event.name == "error":
            return {"error": event.data.get("error", event.data)}
    return None


def _completion(events: list[StreamEvent]) -> JsonDict | None:
    if not events:
        return None
    completion: JsonDict = {}
    choices: dict[int, JsonDict] = {}
    for event in events:
        for name, value in event.data.items():
            if name != "choices" and value is not None:
                completion[name] = value
        for part in event.data.get("choices") or ():
            choice = choices.setdefault(part.get("index", 0), {"message": {}})
            _add_delta(choice["message"], part.get("delta") or {})
            others = {
                name: value
                for name, value in part.items()
                if name not in {"delta", "index"} and value is not None
            }
            choice.update(others)
    if completion.get("object") == "chat.completion.chunk":
        completion["object"] = "chat.completion"
    if choices:
        completion["choices"] = [{"index": index, **choices[index]} for index in sorted(choices)]
    return completion


def _add_delta(message: JsonDict, delta: JsonDict) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            _add_tool_calls(message.setdefault(name, []), value or ())
        elif isinstance(value, str) and name != "role":
            message[name] = (message.get(name) or "") + value
        elif value is not None or name not in message:
            message[name] = value


def _add_tool_calls(calls: list[JsonDict], deltas: Iterable[JsonDict]) -> None:
    for delta in deltas:
        index = delta.get("index", len(calls))
        while len(calls) <= index:
            calls.append({"function": {"name": "", "arguments": ""}})
        call = calls[index]
        call.update({k: v for k, v in delta.items() if k not in {"index", "function"} and v})
        for name, text in (delta.get("function") or {}).items():
            call["function"][name] = (call["function"].get(name) or "") + (text or "")


def _message(events: list[StreamEvent]) -> JsonDict | None:
    message: JsonDict | None = None
    blocks: dict[int, JsonDict] = {}
    written: dict[int, str] = {}
    for event in events:
        data = event.data
        if event.name == "error":
            return {**(message or {}), "error": data.get("error", data)}
        if event.name == "message_start":
            message = dict(data.get("message") or {})
        elif event.name == "content_block_start":
            blocks[data.get("index", 0)] = dict(data.get("content_block") or {})
        elif event.name == "content_block_delta":
            _add_block_delta(data.get("index", 0), data.get("delta") or {}, blocks, written)
        elif event.name == "message_delta" and message is not None:
            message.update(data.get("delta") or {})
            message["usage"] = {**(message.get("usage") or {}), **(data.get("usage") or {})}
    if message is None:
        return None
    for index, text in written.items():
        blocks[index]["input"] = _json_or_text(text)
    if blocks:
        message["content"] = [blocks[index] for index in sorted(blocks)]
    return message


def _add_block_delta(
    index: int, delta: JsonDict, blocks: dict[int, JsonDict], written: dict[int, str]
) -> None:
    block = blocks.setdefault(index, {})
    for name in ("text", "thinking", "signature"):
        if isinstance(delta.get(name), str):
            block[name] = (block.get(name) or "") + delta[name]
    if isinstance(delta.get("partial_json"), str):
        written[index] = written.get(index, "") + delta["partial_json"]


def _json_or_text(text: str) -> Any:
    try:
        return orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return text
