"""Endpoints: a server's methods, callable with objects in-process and with JSON over HTTP.

The method's signature determines its arguments: a body (any pydantic model), a `Session`, or the
HTTP `Request` itself. A method with a `Request` parameter can only be called through the app.
"""

import inspect
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from copy import copy
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import UnionType
from typing import Any, Final, Literal, Union, final, get_args, get_origin, get_type_hints

import orjson
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from palestra.errors import (
    CallError,
    CallEvidence,
    ConfigError,
    FieldProblem,
    RowError,
)
from palestra.schema import (
    CREATE_PARAMS,
    JSON_TYPE,
    TOOL_FAILURES,
    JsonDict,
    Misfit,
    RejectedField,
    SchemaComponents,
    documented_answers,
    encode_json,
    fields_of,
    json_misfit,
    rejected_fields,
    rejection_text,
    request_body,
    short_repr,
)
from palestra.server.author_calls import AuthorMethod
from palestra.server.author_code import function_and_line
from palestra.server.authors_errors import (
    AWAIT,
    ESCAPES,
    UnfitResult,
    stops_this_task,
    text_of,
    unawaited_call,
    whole_error_text,
)
from palestra.server.published import published_schema
from palestra.server.return_types import promised_value
from palestra.server.sessions import (
    SESSION_ID_KEY,
    Session,
    SessionStore,
    ToolFault,
)
from palestra.server.tools import ToolError, arguments_model
from palestra.system import current_pulse
from palestra.transport import REWARD_PATHS, noting_questions

TEXT_TYPE = "text/plain"


def row_error(
    server: str, path: str, fields: Sequence[RejectedField], *, hint: str = ""
) -> RowError:
    """Return the 422 error of a body that does not fit, naming every rejected field."""
    problems = tuple(FieldProblem(field.pointer, field.sentence) for field in fields)
    return RowError(
        f"{server}{path} rejects the body: {rejection_text(fields)}",
        hint=hint,
        evidence=CallEvidence(problems=problems),
    )


Observe = Callable[[str, Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Runs a call and records it: `observe(path, body, call)` returns the result of `call()`."""

Away = Callable[["Endpoint", Any, str], Awaitable[Any]]
"""Runs an endpoint's method in another process: `away(endpoint, body, session_id)`."""


@dataclass(frozen=True, slots=True)
class AroundMethod:
    """The steps that a server runs before and after one of its methods."""

    prepare: Callable[[Any], Any] | None = None
    """Converts the request's body to the method's argument."""
    check: Callable[[Any], None] | None = None
    """Raises an error for a result that must not leave the server."""
    extend: Callable[[Any, str], Any] | None = None
    """Adds fields to a result; the second argument is the session id."""


AROUND_NOTHING: Final = AroundMethod()


@final
class Endpoint:
    """One method of one server.

    `on_error`: turns an exception of the method, or of a call that it made, into the `CallError`
    for this kind of server. `ends_session`: whether the session is closed after the call. `around`:
    steps before and after the method. `author`: reports the call to the pulse; None when Palestra
    ships the method. `answers`: the types of the answer by content type, when the signature does
    not state them. `blocking`: whether the method runs a plain function of the author, when its
    own kind does not say so.
    """

    __slots__ = (
        "_answers",
        "_around",
        "_author",
        "_away",
        "_blocking",
        "_body_model",
        "_body_name",
        "_is_async",
        "_method",
        "_observe",
        "_on_error",
        "_promised",
        "_request_name",
        "_session_name",
        "_sessions",
        "_unobserved",
        "ends_session",
        "is_tool",
        "path",
        "server",
        "wants_request",
    )

    def __init__(
        self,
        method: Callable[..., Any],
        *,
        path: str,
        server: str,
        sessions: SessionStore,
        on_error: Callable[[str, BaseException], CallError],
        body: Literal["model", "arguments"] = "model",
        ends_session: bool = False,
        around: AroundMethod = AROUND_NOTHING,
        author: AuthorMethod | None = None,
        answers: Mapping[str, Any] | None = None,
        blocking: bool | None = None,
    ) -> None:
        self._author = author
        self._blocking = blocking
        self.path = path
        self.server = server
        self.ends_session = ends_session
        self._away: Away | None = None
        self._observe: Observe | None = None
        self._unobserved = self
        self._around = around
        self._answers = answers
        self._method = method
        self._sessions = sessions
        self._on_error = on_error
        self._is_async = inspect.iscoroutinefunction(method)
        self._session_name = ""
        self._body_name = ""
        self._request_name = ""
        self._body_model: type[BaseModel] | None = None
        hints = get_type_hints(method, include_extras=False)
        for name, parameter in inspect.signature(method).parameters.items():
            kind = hints.get(name)
            if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
                continue
            if kind is Session:
                self._session_name = name
            elif kind is Request:
                self._request_name = name
            elif body == "model":
                self._take_body(name, kind)
        self.wants_request = bool(self._request_name)
        """Whether the method takes the HTTP request, which only the app has."""
        self.is_tool = body == "arguments"
        """Whether the body is the tool's arguments, spread over its parameters."""
        self._promised = promised_value(method) if self.is_tool else ""
        if self.is_tool:
            self._body_model = arguments_model(method)

    @property
    def wants_session(self) -> bool:
        """Whether the method has a `Session` or `Request` parameter, so that it can use the
        session's state.
        """
        return bool(self._session_name or self._request_name)

    def _take_body(self, name: str, kind: Any) -> None:
        if self._body_name:
            raise ConfigError(
                f"{self.server}{self.path}: {self._body_name} and {name} cannot both be the body",
                hint="keep one of the two: beside its body, a method may have a Session, or "
                "starlette's Request",
            )
        self._body_name = name
        # Without a model the method gets the JSON as it came.
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            self._body_model = kind

    @property
    def is_sync(self) -> bool:
        """Whether the method is a plain function, so that nothing is awaited."""
        if self._blocking is not None:
            return self._blocking
        return not (self._is_async or inspect.iscoroutinefunction(inspect.unwrap(self._method)))

    def send_away(self, away: Away) -> None:
        """Run the method in another process from now on, with `away`. Not for a method with a
        `Request`.
        """
        self._away = away

    def observe_with(self, observe: Observe) -> None:
        """Run every call through `observe` from now on."""
        # A copy that is not observed: so the calls of all other endpoints have no further layer.
        self._unobserved = copy(self)
        self._observe = observe

    def body_schema(self) -> JsonDict | None:
        """Return the JSON Schema of the body; None when the method takes no body."""
        return None if self._body_model is None else published_schema(self._body_model)

    def operation(self, components: SchemaComponents) -> JsonDict:
        """Return the endpoint's OpenAPI operation, with the answer of success only."""
        body = components.placed(self.body_schema() or {"type": "object"})
        answers = {TEXT_TYPE: str} if self.is_tool else self._answers or _answers_of(self._method)
        return {
            "requestBody": request_body(body),
            "responses": {"200": documented_answers(answers, components)},
        }

    async def invoke(self, body: Any, /, *, session_id: str, request: Request | None = None) -> Any:
        """Check `body`, run the method here or in its other process, and check its result.

        Every call of the server uses this method: in-process objects, HTTP, MCP. `request`: the
        HTTP request, for a method that takes it. Raises `RowError`: the body does not fit. Raises
        `CallError`: any other failure.
        """
        if self._observe is not None:
            call = partial(self._unobserved.invoke, body, session_id=session_id, request=request)
            return await self._observe(self.path, body, call)
        around = self._around
        if not self.is_tool:
            body = self._parse(body)
            if around.prepare is not None:
                body = around.prepare(body)
        if self._away is None:
            result = await self._perform(body, session_id, request)
        else:
            session: Session | None = None
            try:
                result = await self._away(self, body, session_id)
            finally:
                if self.ends_session:
                    session = self._sessions.close(session_id)
            if session is not None:
                # The session of the worker has what its tools raised, this one what reached no tool.
                result = _with_faults(result, session.tool_faults, are_further=True)
        return result if around.extend is None else around.extend(result, session_id)

    def perform(self, body: Any, session_id: str) -> Coroutine[Any, Any, Any]:
        """Run the method, in the process that was set with `send_away`. Raises the same errors as
        `invoke`.
        """
        return self._perform(body if self.is_tool else self._parse(body), session_id)

    async def _perform(self, body: Any, session_id: str, request: Request | None = None) -> Any:
        ended_session: Session | None = None
        try:
            if self.path in REWARD_PATHS:
                with noting_questions(f"{self.server}{self.path}") as questions:
                    result = await self._result(body, session_id, request)
                questions.refuse(result)
            else:
                result = await self._result(body, session_id, request)
        except CallError as error:
            # Of a tool too: a call that it made failed, which is no answer of the tool.
            raise self._on_error(self.path, error) from error.__cause__
        except ESCAPES as error:
            if stops_this_task(error):
                raise
            if self.is_tool:
                return self._said_of(error, session_id)
            raise self._on_error(self.path, error) from error
        finally:
            if self.ends_session:
                ended_session = self._sessions.close(session_id)
        if self.is_tool:
            return self._answer_of(result, session_id)
        if self._around.check is not None:
            self._around.check(result)
        return result if ended_session is None else _with_faults(result, ended_session.tool_faults)

    async def _result(self, body: Any, session_id: str, request: Request | None) -> Any:
        """Run the method, and return its result or raise its exception."""
        if self._author is not None and (pulse := current_pulse()) is not None:
            begin = partial(self._begin, body, session_id, request)
            return await self._author.executed(pulse, begin, body)
        result = self._begin(body, session_id, request)
        return await result if self._is_async or isinstance(result, Awaitable) else result

    def _answer_of(self, result: Any, session_id: str) -> str:
        """Return what the model reads of a tool's result. None is a failure where the author promised
        something else.
        """
        if result is None and self._promised:
            return self._said_of(self._forgotten_value(), session_id)
        return self._text_of(result)

    def _text_of(self, result: Any) -> str:
        """Return a tool's result as the text that the model reads."""
        if isinstance(result, str):
            # Half a surrogate pair (a file name, a cut emoji) can be neither sent nor stored.
            return result if result.isascii() else result.encode("utf-8", "replace").decode()
        try:
            return encode_json(result).decode()
        except TypeError as error:
            raise self._on_error(self.path, self._unfit(result, error)) from error

    def _forgotten_value(self) -> UnfitResult:
        return UnfitResult(
            f"returned None, and its annotation promises {self._promised}: write return, or -> "
            f"{self._promised} | None where None is meant",
            hint="",
            function=function_and_line(self._method),
        )

    def _unfit(self, result: Any, error: TypeError) -> UnfitResult:
        function = function_and_line(self._method)
        if call := unawaited_call(result):
            return UnfitResult(f"returned {call}", hint=AWAIT, function=function)
        if isinstance(result, Generator | AsyncGenerator):
            return UnfitResult(
                "returned a generator, which is not JSON",
                hint="a tool with a yield returns a generator: return the value, or a list",
                function=function,
            )
        misfit = json_misfit(result, "the result") or Misfit(str(error), "")
        return UnfitResult(
            f"returned {short_repr(result)}, which is not JSON: {misfit.problem}",
            hint=misfit.cure,
            function=function,
        )

    def _said_of(self, error: BaseException, session_id: str) -> "ToolFailure":
        """Return a tool's exception as the text that the model reads. An exception other than
        `ToolError` or an HTTP error below 500 is a bug, and is also kept for the row.
        """
        if isinstance(error, ToolError):
            return tool_error(text_of(error))
        if (
            isinstance(error, HTTPException)
            and error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            return tool_error(whole_error_text(error))
        self._on_error(self.path, error)
        self._sessions.open(session_id).note_fault(ToolFault.of(self.path, error))
        if isinstance(error, UnfitResult):
            return tool_error(f"{self.path.removeprefix('/')} {error}")
        return tool_error(whole_error_text(error))

    def _parse(self, body: Any) -> Any:
        model = self._body_model
        if model is None or type(body) is model:
            return body
        try:
            if isinstance(body, BaseModel):
                # Its fields are objects already; only the shell differs. What nobody set is
                # not sent, here as over HTTP, and the order is that of the fields.
                set_fields = body.model_fields_set
                fields = {**body.__dict__, **(body.model_extra or {})}
                body = {name: value for name, value in fields.items() if name in set_fields}
            return model.model_validate(body)
        except ValidationError as error:
            rejected = row_error(self.server, self.path, rejected_fields(body, error))
            # A tool's arguments are the model's own words: it gets to read what was wrong.
            raise (ToolError(rejected.message) if self.is_tool else rejected) from None

    def _begin(self, body: Any, session_id: str, request: Request | None = None) -> Any:
        """Call the method. Return its result, which may be awaitable, or raise its exception
        unchanged.
        """
        if self.is_tool:
            body = self._parse(body)
        arguments: dict[str, Any] = {}
        if self._session_name:
            arguments[self._session_name] = self._sessions.open(session_id)
        if self._request_name:
            arguments[self._request_name] = request
        if self._body_name:
            arguments[self._body_name] = body
        elif self._body_model is not None:
            arguments |= {name: getattr(body, name) for name in type(body).model_fields}
        return self._method(**arguments)

    async def __call__(self, request: Request) -> HttpResponse:
        """Answer one HTTP request. The boundary turns errors into replies."""
        return await self.answer(await request.body(), request.session[SESSION_ID_KEY], request)

    async def answer(
        self, raw: bytes, session_id: str, request: Request | None = None
    ) -> HttpResponse:
        """Answer a request body `raw`. `request`: for a method that takes it. Raises the same
        errors as `invoke`.
        """
        try:
            body: Any = orjson.loads(raw) if raw else {}
        except orjson.JSONDecodeError as error:
            raise RowError(f"{self.server}{self.path}: the body is not JSON ({error})") from None
        result = await self.invoke(body, session_id=session_id, request=request)
        if isinstance(result, HttpResponse):
            return result
        if self.is_tool:
            return HttpResponse(result, media_type=f"{TEXT_TYPE}; charset=utf-8")
        if isinstance(result, BaseModel):
            result = fields_of(result)
        return HttpResponse(encode_json(result), media_type=JSON_TYPE)


def _with_faults(result: Any, faults: Sequence[ToolFault], *, are_further: bool = False) -> Any:
    """Return the verify response with the list of tool calls that failed with a bug, if any.
    `are_further`: add them to those that the response lists.
    """
    if not faults:
        return result
    payload = fields_of(result) if isinstance(result, BaseModel) else result
    if not isinstance(payload, dict):
        return result  # a whole HTTP answer, which is its author's
    row = with_faults(payload, faults)
    earlier = payload.get(TOOL_FAILURES) if are_further and row is not payload else None
    if isinstance(earlier, list):
        new_faults = [fault for fault in row[TOOL_FAILURES] if fault not in earlier]
        row[TOOL_FAILURES] = [*earlier, *new_faults]
    return row


def with_faults(row: JsonDict, faults: Sequence[ToolFault]) -> JsonDict:
    """Return the verify response `row` with the list of tool calls that failed with a bug, or that
    the row offers in vain.
    """
    listed = [fault.as_json() for fault in faults if fault.is_of_row(row.get(CREATE_PARAMS))]
    return {**row, TOOL_FAILURES: listed} if listed else row


class ToolFailure(str):
    """The text that a failed tool returns to the model. A `str` subclass, so that a failure can be
    recognized.
    """

    __slots__ = ()


def tool_error(message: str) -> ToolFailure:
    """Return the text that the model reads when its tool call failed."""
    return ToolFailure(encode_json({"error": message}).decode())


def _answers_of(method: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a method's return annotation, by content type.

    A returned `HttpResponse` may have any content type.
    """
    kind = get_type_hints(method).get("return", Any)
    kinds = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    values = [k for k in kinds if not (isinstance(k, type) and issubclass(k, HttpResponse))]
    answers: dict[str, Any] = {JSON_TYPE: Union[tuple(values)]} if values else {}  # noqa: UP007
    return answers if len(values) == len(kinds) else {**answers, "*/*": Any}
