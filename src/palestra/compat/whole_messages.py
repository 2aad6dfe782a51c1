"""Read whole request bodies in ASGI middleware, and hold whole answers back to change them."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, final

import orjson

from palestra.schema import JsonDict, encode_json

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def read_body(receive: Receive) -> tuple[list[Message], bytes]:
    """Return the messages of a request and its body. The body is incomplete if the caller
    disconnected.
    """
    messages = []
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request" or not message.get("more_body"):
            return messages, b"".join(message.get("body", b"") for message in messages)


def replayed(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that gives `messages` first, then what comes from `receive`."""

    async def replay() -> Message:
        return messages.pop(0) if messages else await receive()

    return replay


def json_object(raw: bytes) -> JsonDict | None:
    """Return the JSON object in `raw`; None when it holds anything else."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


@final
class WholeAnswer:
    """An answer that is held back until it is complete."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def send(self, message: Message) -> None:
        """Store one message of the answer that the app sends."""
        self._messages.append(message)

    async def pass_on(self, send: Send, changed: Callable[[JsonDict], JsonDict]) -> None:
        """Send the stored answer; what `changed` makes of it when it is a successful JSON object."""
        start, body = self._messages[0], b"".join(m.get("body", b"") for m in self._messages[1:])
        fields = json_object(body) if start["status"] < 300 else None
        if fields is None:
            for message in self._messages:
                await send(message)
            return
        content = encode_json(changed(fields))
        headers = [header for header in start["headers"] if header[0].lower() != b"content-length"]
        length = (b"content-length", str(len(content)).encode())
        await send({**start, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": content})
