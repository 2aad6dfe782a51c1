"""Record the calls of a model server's endpoints, with the bytes that HTTP would have carried."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response as HttpResponse

from palestra.errors import CallError, status_for, to_body
from palestra.observability import CallAnswer, CallRecorder
from palestra.schema import encode_json, fields_of


async def observed(
    recorder: CallRecorder, path: str, body: Any, call: Callable[[], Awaitable[Any]]
) -> Any:
    """Return the result of `call()`, the call of `path` with `body`, and record it. A failure is
    recorded and raised.
    """
    open_call = recorder.begin(path)
    if open_call is None:
        return await call()
    # Before the call: the body's owner may change it later.
    request = encode_json(body)
    try:
        result = await call()
    except BaseException as error:
        await recorder.end(open_call, request, _failure(error))
        raise
    await recorder.end(open_call, request, _answer(result))
    return result


def _answer(result: Any) -> CallAnswer:
    if isinstance(result, HttpResponse):
        streamed = (result.media_type or "").startswith("text/event-stream")
        return CallAnswer(result.status_code, bytes(result.body), streamed=streamed)
    fields = fields_of(result) if isinstance(result, BaseModel) else result
    return CallAnswer(HTTPStatus.OK, encode_json(fields))


def _failure(error: BaseException) -> CallAnswer:
    if isinstance(error, CallError):
        return CallAnswer(status_for(error), encode_json(to_body(error)), failure=error)
    return CallAnswer(failure=error)
