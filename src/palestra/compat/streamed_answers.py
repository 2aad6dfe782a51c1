"""Answer `stream: true` with an event stream, although a model server's method returns whole
answers.

The method gets the request without `stream`. Its answer is sent as events, in one piece.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

import orjson
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from palestra.schema import ChatCompletion, JsonDict, encode_json
from palestra.server import EVENT_STREAM, chat_events
from palestra.transport import new_id

_STREAMING: Final = ("stream", "stream_options")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StreamedResponses(APIRoute):
    """The route of `/v1/responses`. A failing method ends the stream with `response.failed`."""

    def get_route_handler(self) -> Handler:
        """Return the handler of requests with and without `stream: true`."""
        answer = super().get_route_handler()

        async def answer_or_stream(request: Request) -> Response:
            body = await _streaming_body(request)
            if body is None:
                return await answer(request)
            try:
                reply = await answer(_unstreamed(request, body))
            except RequestValidationError:
                raise
            except Exception as error:  # whatever it is, the client waits for an event
                events = _failed(body, f"{type(error).__name__}: {error}")
            else:
                response = _object(reply)
                events = (
                    _failed(body, bytes(reply.body).decode("utf-8", "replace"))
                    if response is None
                    else response_events(response)
                )
            return Response(b"".join(events), media_type=EVENT_STREAM)

        return answer_or_stream


class StreamedChat(APIRoute):
    """The route of `/v1/chat/completions`. A failure is answered with its own status."""

    def get_route_handler(self) -> Handler:
        """Return the handler of requests with and without `stream: true`."""
        answer = super().get_route_handler()

        async def answer_or_stream(request: Request) -> Response:
            body = await _streaming_body(request)
            if body is None:
                return await answer(request)
            reply = await answer(_unstreamed(request, body))
            completion = _object(reply)
            try:
                chat_completion = ChatCompletion.model_validate(completion)
            except ValidationError:  # an answer of the author's own, such as a refusal
                return reply
            options = body.get("stream_options")
            with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
            return Response(
                chat_events(chat_completion, with_usage=with_usage), media_type=EVENT_STREAM
            )

        return answer_or_stream


def response_events(response: JsonDict) -> Iterator[bytes]:
    """Yield the events of a whole response: its beginning, each output item, its end."""
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[JsonDict] = [
        {"type": "response.created", "response": opening},
        {"type": "response.in_progress", "response": opening},
    ]
    for index, item in enumerate(response.get("output") or ()):
        events += _item_events(index, item)
    status = response.get("status")
    ending = status if status in {"incomplete", "failed"} else "completed"
    events.append({"type": f"response.{ending}", "response": {**response, "status": ending}})
    return _encoded(events)


def _failed(body: JsonDict, message: str) -> Iterator[bytes]:
    response: JsonDict = {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": 0,
        "model": body.get("model") or "",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "failed",
        "error": {"code": "server_error", "message": message},
    }
    return response_events(response)


def _item_events(index: int, item: JsonDict) -> Iterator[JsonDict]:
    position = {"output_index": index, "item_id": item.get("id") or f"item_{index}"}
    empty_item = {name: [] if isinstance(value, list) else value for name, value in item.items()}
    if "arguments" in empty_item:
        empty_item["arguments"] = ""
    yield {"type": "response.output_item.added", "output_index": index, "item": empty_item}
    if item.get("type") == "message":
        for number, part in enumerate(item.get("content") or ()):
            yield from _part_events({**position, "content_index": number}, part)
    elif item.get("type") == "function_call":
        arguments = item.get("arguments", "")
        name = "response.function_call_arguments"
        yield {"type": f"{name}.delta", **position, "delta": arguments}
        yield {"type": f"{name}.done", **position, "arguments": arguments}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(position: JsonDict, part: JsonDict) -> Iterator[JsonDict]:
    key = "refusal" if part.get("type") == "refusal" else "text"
    text = part.get(key, "")
    yield {"type": "response.content_part.added", **position, "part": {**part, key: ""}}
    if text:
        name = "response.refusal" if key == "refusal" else "response.output_text"
        yield {"type": f"{name}.delta", **position, "delta": text}
        yield {"type": f"{name}.done", **position, key: text}
    yield {"type": "response.content_part.done", **position, "part": part}


def _encoded(events: list[JsonDict]) -> Iterator[bytes]:
    for number, event in enumerate(events):
        data = encode_json({**event, "sequence_number": number})
        yield b"event: " + event["type"].encode() + b"\ndata: " + data + b"\n\n"


async def _streaming_body(request: Request) -> JsonDict | None:
    """Return the body of a request with `stream: true`; None for any other request."""
    raw = await request.body()
    if b'"stream"' not in raw:
        return None
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) and body.get("stream") is True else None


def _unstreamed(request: Request, body: JsonDict) -> Request:
    raw = encode_json({name: value for name, value in body.items() if name not in _STREAMING})

    async def receive() -> JsonDict:
        return {"type": "http.request", "body": raw, "more_body": False}

    return Request(request.scope, receive)


def _object(reply: Response) -> JsonDict | None:
    """Return the JSON object of a reply below status 400; None for any other reply."""
    if reply.status_code >= 400:
        return None
    try:
        value: Any = orjson.loads(bytes(reply.body))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
