"""The sandbox as a service: an app around a `Sandbox`, for machines that cannot isolate programs.

    GET    /                     the service's status
    GET    /openapi.json         this interface as an OpenAPI document
    POST   /run                  run a program; the response is its result
    POST   /conversations        start a program that answers messages; the response is an id
    POST   /conversations/ID     send raw bytes as a message; the response is the program's answer
    PUT    /conversations/ID     renew the lease
    DELETE /conversations/ID     stop the program; the response is its result

Status 410: the conversation has ended. 422: the request is wrong, or its program cannot be
executed. 503: the sandbox failed. Error bodies have the same format as those of every server
(`palestra.errors.to_body`). When a client disconnects while its program runs or waits for a slot,
the program is ended.

A web page in a browser on this machine must not reach the service. So request bodies have a content
type that no HTML form can send. Without a token, the service accepts only Host headers that name
this machine, because another name may belong to a web page and resolve to this address.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, Self, TypeVar, final

import orjson
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from palestra.errors import (
    BadInput,
    CallError,
    InfraError,
    KnownCause,
    RowError,
    WrongSetting,
    to_body,
)
from palestra.sandbox.backend import ConversationEnded, ProgramNotStarted
from palestra.sandbox.leases import LeasedConversations
from palestra.sandbox.limits import SandboxResult
from palestra.sandbox.sandbox import Sandbox
from palestra.sandbox.service_wire import (
    RAW,
    SERVICE,
    WITHIN_HEADER,
    BegunConversation,
    ProgramMessage,
    ServiceStatus,
)
from palestra.schema import (
    JSON_TYPE,
    JsonDict,
    JsonObject,
    SchemaComponents,
    complete_document,
    documented_answers,
    json_schema_of,
    request_body,
)
from palestra.system import background, bears_token, names_this_machine

T = TypeVar("T")

LEASE_S: Final = 60.0
"""The lease, in seconds, of a conversation that holds a slot."""
IDLE_S: Final = 600.0
"""The lease, in seconds, of a conversation that may rest. It is longer because it blocks no slot,
and its state would be lost."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _GoneAway(Exception):
    """The client has disconnected."""


@final
class SandboxService:
    """The sandbox service. When its context ends, it ends all open conversations."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        token: str = "",
        lease_s: float = LEASE_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._sandbox = sandbox
        self._token = token
        self._lease_s = lease_s
        self._idle_s = idle_s
        self._conversations = LeasedConversations()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._conversations.aclose()

    def app(self) -> Starlette:
        """Return the service's ASGI app."""
        return Starlette(
            routes=[
                self._route("GET", "/", self._status),
                self._route("GET", "/openapi.json", self._document),
                self._route("POST", "/run", self._run, takes=JSON_TYPE),
                self._route("POST", "/conversations", self._begin, takes=JSON_TYPE),
                self._route("POST", "/conversations/{id}", self._ask, takes=RAW),
                self._route("PUT", "/conversations/{id}", self._renew),
                self._route("DELETE", "/conversations/{id}", self._end),
            ]
        )

    def _route(self, method: str, path: str, handler: Handler, *, takes: str = "") -> Route:
        async def guarded(request: Request) -> Response:
            refusal = self._refusal(request, takes)
            if refusal is not None:
                return refusal
            try:
                return await handler(request)
            except ConversationEnded:
                failure = InfraError("the conversation has ended, or there is none of that id")
                return _problem(410, failure)
            except (ValidationError, ValueError, ProgramNotStarted) as error:
                return _problem(422, RowError(str(error)))
            except (InfraError, BadInput) as error:
                return _problem(503, InfraError(error.message, hint=error.hint))
            except (_GoneAway, ClientDisconnect):
                return _problem(499, InfraError("nobody waits for this"))

        return Route(path, guarded, methods=[method])

    def _refusal(self, request: Request, takes: str) -> Response | None:
        """Return the response that refuses a request (token, Host header, content type); None when
        the request is accepted.
        """
        credentials = request.headers.get("authorization", "")
        if self._token:
            if not bears_token(credentials.encode(), self._token):
                return _problem(
                    401,
                    WrongSetting(
                        "the sandbox service asks for its token", cause=KnownCause.NO_TOKEN
                    ),
                )
        elif not names_this_machine(request.headers.get("host", "")):
            allowed_hosts = "without a token the sandbox service is localhost or 127.0.0.1"
            return _problem(421, WrongSetting(allowed_hosts))
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if takes and content_type != takes:
            return _problem(415, RowError(f"this takes {takes}"))
        return None

    async def _status(self, request: Request) -> Response:
        del request
        backend = await self._sandbox.start()
        return _json(
            ServiceStatus(service=SERVICE, backend=backend.name, isolates=backend.isolates)
        )

    async def _document(self, request: Request) -> Response:
        del request
        return Response(orjson.dumps(_described()), media_type=JSON_TYPE)

    async def _run(self, request: Request) -> Response:
        message = ProgramMessage.model_validate_json(await request.body())
        running = self._sandbox.run(message.program(), stdin=message.input(), limits=message.limits)
        return _json(await _while_connected(request, running))

    async def _begin(self, request: Request) -> Response:
        message = ProgramMessage.model_validate_json(await request.body())
        return _json(await _while_connected(request, self._open(message)))

    async def _open(self, message: ProgramMessage) -> BegunConversation:
        lease_s = self._idle_s if message.rests else self._lease_s
        async with AsyncExitStack() as stack:
            conversation = await stack.enter_async_context(
                self._sandbox.converse(
                    message.program(), limits=message.limits, rests=message.rests
                )
            )
            name = self._conversations.add(conversation, stack, lease_s=lease_s)
        return BegunConversation(id=name, lease_s=lease_s)

    async def _ask(self, request: Request) -> Response:
        within_s = float(request.headers.get(WITHIN_HEADER, "60"))
        if not (math.isfinite(within_s) and within_s > 0):
            raise ValueError(f"{WITHIN_HEADER} is not a number of seconds: {within_s}")
        asking = self._conversations.ask(
            request.path_params["id"], await request.body(), within_s=within_s
        )
        return Response(await _while_connected(request, asking), media_type=RAW)

    async def _renew(self, request: Request) -> Response:
        self._conversations.renew(request.path_params["id"])
        return Response(b"{}", media_type=JSON_TYPE)

    async def _end(self, request: Request) -> Response:
        return _json(await self._conversations.end(request.path_params["id"]))


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, and cancel `work` when the client disconnects.

    Raises `_GoneAway` when the client has disconnected.
    """
    working = asyncio.ensure_future(work)
    async with background(_disconnected(request)) as gone:
        try:
            first: set[asyncio.Future[Any]] = {working, gone}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
    if working.cancelled():
        raise _GoneAway
    return working.result()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type=JSON_TYPE)


def _problem(status: int, failure: CallError) -> Response:
    return Response(orjson.dumps(to_body(failure)), status_code=status, media_type=JSON_TYPE)


def _described() -> JsonDict:
    """Return the OpenAPI document of the service."""
    document: JsonDict = {
        "openapi": "3.1.0",
        "info": {"title": SERVICE, "version": "1"},
        "paths": {},
    }
    components = SchemaComponents(document)

    def operation(answers: Any, *, body: JsonObject | None = None) -> JsonDict:
        described: JsonDict = {"responses": {"200": documented_answers(answers, components)}}
        return described if body is None else {"requestBody": dict(body), **described}

    program = request_body(components.placed(json_schema_of(ProgramMessage)))
    raw = {"content": {RAW: {"schema": {"type": "string"}}}}
    conversation = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    within = {"name": WITHIN_HEADER, "in": "header", "schema": {"type": "number"}}
    document["paths"] = {
        "/": {"get": operation({JSON_TYPE: ServiceStatus})},
        "/run": {"post": operation({JSON_TYPE: SandboxResult}, body=program)},
        "/conversations": {"post": operation({JSON_TYPE: BegunConversation}, body=program)},
        "/conversations/{id}": {
            "parameters": [conversation],
            "post": {**operation({RAW: str}, body=raw), "parameters": [within]},
            "put": operation({JSON_TYPE: JsonDict}),
            "delete": operation({JSON_TYPE: SandboxResult}),
        },
    }
    complete_document(document, {401, 410, 415, 421, 422, 503})
    return document
