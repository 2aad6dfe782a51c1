"""The rollout service: an app around any client that keeps the contract.

Without a token, the service accepts only Host headers that name this machine, and bodies have a
content type that no HTML form can send: a web page in a browser on this machine must not reach it.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Self, final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from palestra.errors import BadInput, ConfigError, InputDataError, KnownCause, PalestraError
from palestra.fleet import LOOPBACK
from palestra.schema import JSON_TYPE, JsonDict
from palestra.system import background, bears_token, names_this_machine
from palestra.training.contract import RolloutSource
from palestra.training.outcomes import json_of
from palestra.training.service.batches import (
    GROUPS,
    LeaseOver,
    NoBatch,
    OtherBatch,
    ServedBatch,
    ServedBatches,
    TakenOtherwise,
)
from palestra.training.service.failures import error_to_json
from palestra.training.service.interface import OPERATIONS, VERSION, Operation, openapi_document
from palestra.training.service.wire import (
    LINES_TYPE,
    PACKED_TYPE,
    SERVICE,
    BatchList,
    BatchRequest,
    BatchState,
    CancelRequest,
    GroupsQuery,
    LinesQuery,
    Nothing,
    ServiceStatus,
    WeightVersion,
)
from palestra.training.service.wrong_bodies import wrong_body

TOKEN_VARIABLE: Final = "PALESTRA_ROLLOUTS_TOKEN"  # noqa: S105 - a name
LEASE_S: Final = 300.0
MOST_BODY_BYTES: Final = 1024 * 1024 * 1024
"""The largest body of a submission. It is held in memory as bytes and as rows."""

_ARRAY: Final = b"\xdd"
"""The first byte of an array whose length has four bytes."""

Answer = Callable[[Request], Awaitable[Any]]


class _Refused(Exception):
    """A request is refused. `status`: the HTTP status."""

    def __init__(self, status: int, error: PalestraError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


def service_token(host: str, variables: Mapping[str, str] = os.environ) -> str:
    """Return the token that the environment has for a service; empty without one.

    Raises ConfigError: there is none, and the service would listen beyond this machine.
    """
    token = variables.get(TOKEN_VARIABLE, "")
    if not token and host not in LOOPBACK:
        raise ConfigError(
            f"the rollout service would listen on {host} without a token to protect it",
            hint=f"set {TOKEN_VARIABLE} to a long random text, here and for its clients",
            cause=KnownCause.NO_TOKEN,
        )
    return token


@final
class RolloutService:
    """The rollout service over an entered client. When its context ends, all batches are closed."""

    def __init__(
        self,
        source: RolloutSource,
        *,
        token: str = "",
        lease_s: float = LEASE_S,
        most_body_bytes: int = MOST_BODY_BYTES,
    ) -> None:
        self._source = source
        self._token = token
        self._most_body_bytes = most_body_bytes
        self._batches = ServedBatches(lease_s=lease_s)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        watch = background(self._batches.watch(), "leases of batches")
        await self._stack.enter_async_context(watch)
        return self

    async def __aexit__(self, *raised: object) -> None:
        del raised
        await self._stack.aclose()
        await self.stop("the rollout service was stopped")

    async def stop(self, reason: str) -> None:
        """Close all batches, and tell the clients that wait for them why."""
        await self._batches.aclose(reason)

    def app(self) -> Starlette:
        """Return the service's ASGI app."""
        answers: Mapping[str, Answer] = {
            "service_status": self._status,
            "health": self._health,
            "submit_batch": self._submit,
            "list_batches": self._list,
            "batch_state": self._state,
            "take_outcomes": self._outcomes,
            "take_groups": self._groups,
            "gather": self._gathered,
            "cancel_rollouts": self._cancel,
            "close_batch": self._close,
            "pause": self._pause,
            "resume": self._resume,
            "hold_calls": self._hold,
            "set_weight_version": self._set_weights,
        }
        described = Route("/openapi.json", self._document, methods=["GET"])
        return Starlette(
            routes=[described, *(self._route(item, answers[item.name]) for item in OPERATIONS)],
            exception_handlers={404: _no_operation, 405: _no_operation},
        )

    def _route(self, operation: Operation, answer: Answer) -> Route:
        async def guarded(request: Request) -> Response:
            try:
                self._admit(request, takes_json=operation.body is not None)
                value = await answer(request)
            except _Refused as refusal:
                return _problem(refusal.status, refusal.error)
            except PalestraError as error:
                return _problem(_status_of(error), error)
            except ClientDisconnect:
                return _problem(499, InputDataError("the client has gone"))
            return value if isinstance(value, Response) else _json(value)

        return Route(operation.path, guarded, methods=[operation.method])

    def _admit(self, request: Request, *, takes_json: bool) -> None:
        """Raise `_Refused` for a request with a wrong token, Host header or content type."""
        if self._token:
            credentials = request.headers.get("authorization", "")
            if not bears_token(credentials.encode("latin-1"), self._token):
                raise _Refused(401, _wrong_token(credentials))
        elif not names_this_machine(request.headers.get("host", "")):
            raise _Refused(
                421, ConfigError("without a token the rollout service is localhost or 127.0.0.1")
            )
        elif request.headers.get("origin"):
            raise _Refused(
                421,
                ConfigError(
                    "without a token the rollout service answers no pages of browsers",
                    hint=f"set {TOKEN_VARIABLE} for the service, and send its token",
                ),
            )
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if takes_json and content_type != JSON_TYPE:
            raise _Refused(
                415,
                InputDataError(
                    f"the content type of the body is {content_type or 'not set'}; it must be "
                    f"{JSON_TYPE}",
                    hint=f"curl sends it with -H 'content-type: {JSON_TYPE}'",
                ),
            )

    # The operations

    async def _document(self, request: Request) -> Response:
        del request
        return _json(openapi_document())

    async def _status(self, request: Request) -> ServiceStatus:
        del request
        settings: JsonDict = msgspec.to_builtins(self._source.settings)
        return ServiceStatus(
            SERVICE, VERSION, self._batches.lease_s, settings, self._source.weight_version
        )

    async def _health(self, request: Request) -> Any:
        del request
        return await self._source.health()

    async def _submit(self, request: Request) -> BatchState:
        body: BatchRequest = await self._body(request, BatchRequest)
        batch = self._batches.add(
            request.path_params["batch"],
            body,
            lambda: self._source.submit(
                body.requests,
                deadline_s=body.deadline_s,
                on_incomplete=body.on_incomplete,
                min_fraction=body.min_fraction,
            ),
        )
        return batch.state()

    async def _list(self, request: Request) -> BatchList:
        del request
        return BatchList(self._batches.listed())

    async def _state(self, request: Request) -> BatchState:
        return self._batch(request).state()

    async def _outcomes(self, request: Request) -> Response:
        return await self._stream(request, "outcomes", _query(request, LinesQuery))

    async def _groups(self, request: Request) -> Response:
        page = _query(request, GroupsQuery)
        return await self._stream(request, GROUPS, page, page.size)

    async def _gathered(self, request: Request) -> Response:
        return await self._stream(request, "gathered", _query(request, LinesQuery))

    async def _stream(
        self, request: Request, way: str, page: LinesQuery, size: int = 0
    ) -> Response:
        batch = self._batch(request)
        batch.take(way, size, packed=page.packed)
        batch.acknowledge(page.after)
        if page.follow and not page.packed:
            return StreamingResponse(_followed(batch, page), media_type=LINES_TYPE)
        part = await batch.lines(page.after, page.limit, page.wait_s)
        if page.packed:
            return Response(_packed(part.lines, part.last_line), media_type=PACKED_TYPE)
        return Response(_joined([*part.lines, part.last_line]), media_type=LINES_TYPE)

    async def _cancel(self, request: Request) -> BatchState:
        body: CancelRequest = await self._body(request, CancelRequest)
        batch = self._batch(request)
        batch.handle.cancel(body.keys)
        return batch.state()

    async def _close(self, request: Request) -> BatchState:
        return await self._batches.close(request.path_params["batch"])

    async def _pause(self, request: Request) -> Nothing:
        del request
        self._source.pause()
        return Nothing()

    async def _resume(self, request: Request) -> Nothing:
        del request
        self._source.resume()
        return Nothing()

    async def _hold(self, request: Request) -> Nothing:
        del request
        await self._source.hold_calls()
        return Nothing()

    async def _set_weights(self, request: Request) -> Nothing:
        body: WeightVersion = await self._body(request, WeightVersion)
        await self._source.set_weight_version(body.version)
        return Nothing()

    def _batch(self, request: Request) -> ServedBatch:
        return self._batches.get(request.path_params["batch"])

    async def _body(self, request: Request, kind: Any) -> Any:
        chunks: list[bytes] = []
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > self._most_body_bytes:
                raise _Refused(413, InputDataError(_too_large(self._most_body_bytes)))
            chunks.append(chunk)
        text = b"".join(chunks)
        if not text:
            raise InputDataError(f"the body is empty; it must be the JSON of a {kind.__name__}")
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            raise wrong_body(text, kind, error) from None


async def _no_operation(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    problem = InputDataError(
        f"the rollout service has no operation {request.method} {request.url.path}",
        hint="GET /openapi.json lists all; a client's url has no path",
    )
    return _problem(status, problem)


def _wrong_token(credentials: str) -> ConfigError:
    token = "another token" if credentials else "no token"
    return ConfigError(
        f"the rollout service requires its token, and the request has {token}",
        hint=f"set {TOKEN_VARIABLE} to the token of the service; programs without our client send "
        "it as the header `Authorization: Bearer TOKEN`",
        cause=KnownCause.NO_TOKEN,
    )


def _too_large(most_bytes: int) -> str:
    return (
        f"the body has more than {most_bytes} bytes, the service's limit; submit fewer rollouts "
        "at a time"
    )


async def _followed(batch: ServedBatch, page: LinesQuery) -> AsyncIterator[bytes]:
    """Yield the lines of a stream as they come, until its limit, a long silence or the end."""
    count = 0
    while True:
        part = await batch.lines(page.after + count, page.limit - count, page.wait_s)
        count += len(part.lines)
        if not part.lines or part.is_last or count >= page.limit or batch.is_full:
            yield _joined([*part.lines, part.last_line])
            return
        yield _joined(part.lines)


def _joined(lines: list[bytes]) -> bytes:
    return b"\n".join([*lines, b""])


def _packed(lines: list[bytes], last_line: bytes) -> bytes:
    """Return a MessagePack array of lines that are packed already, and the last line as bytes."""
    head = _ARRAY + (len(lines) + 1).to_bytes(4, "big")
    return b"".join([head, *lines, msgspec.msgpack.encode(last_line)])


def _query(request: Request, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputDataError(f"the query of {request.url.path} is wrong: {error}") from None


def _status_of(error: PalestraError) -> int:
    statuses: Mapping[type[PalestraError], int] = {
        NoBatch: 404,
        TakenOtherwise: 409,
        OtherBatch: 409,
        LeaseOver: 410,
        InputDataError: 422,
        BadInput: 400,
    }
    return next((status for cls, status in statuses.items() if isinstance(error, cls)), 502)


def _json(value: Any) -> Response:
    return Response(json_of(value), media_type=JSON_TYPE)


def _problem(status: int, error: PalestraError) -> Response:
    return Response(error_to_json(error), status_code=status, media_type=JSON_TYPE)
