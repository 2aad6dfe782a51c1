"""`ModelServer`: turns Responses API requests into calls of a real endpoint.

Every model server also serves clients that speak Chat Completions or Anthropic's Messages: see
`palestra.server.fronts`.
"""

import functools
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import msgspec
from fastapi import FastAPI
from pydantic import BaseModel, PrivateAttr
from starlette.responses import Response as HttpResponse

from palestra.config import ServerType
from palestra.errors import InfraError, RowIdentity, from_body
from palestra.observability import DIALECTS, CallRecorder
from palestra.schema import (
    JSON_TYPE,
    ChatCompletion,
    ChatCreateParams,
    ChatMessage,
    JsonDict,
    Response,
    ResponseCreateParams,
    TokenVerdict,
    TurnTokens,
    fields_of,
    set_fields,
)
from palestra.server.capture import (
    TRAINING_RUN,
    TRAINING_TURNS,
    TrainingRun,
    TurnCapture,
    TurnsTaken,
    TurnsWanted,
)
from palestra.server.endpoints import Endpoint
from palestra.server.fronts.asked import unpacked
from palestra.server.fronts.chat import completion_from_response, params_from_chat
from palestra.server.fronts.messages import (
    EVENT_STREAM,
    MessagesAnswer,
    MessagesRequest,
    chat_events,
    message_events,
    message_from_response,
    params_from_messages,
)
from palestra.server.observed_calls import observed
from palestra.server.server import Server, ServerConfig
from palestra.server.sessions import Session, SessionStore
from palestra.transport import CallContext, ServerClient, calling

NOT_ASKED = (
    "its endpoint is not asked before the first rollout, as the server is your own code; there is "
    "nothing to do"
)
"""The answer of a model server without a check of its endpoint."""

CHECK_PATH = "/endpoint"
"""The path where a model server reports what its endpoint is and whether it answers."""


@dataclass(frozen=True, slots=True)
class EndpointFacts:
    """What a model server found out about its endpoint in its last `check`."""

    model: str = ""
    """The model name in requests to the endpoint; empty: there is no endpoint."""
    served: tuple[str, ...] = ()
    """The model names that the endpoint lists; empty when unknown."""
    max_model_len: int | None = None
    """The context length, prompt and answer together, in tokens; None when unknown."""
    tool_parser: str = ""
    """The endpoint's tool parser; empty when unknown."""


class ListedModel(BaseModel):
    """One model that a model server offers."""

    id: str
    object: Literal["model"] = "model"


class ModelList(BaseModel):
    """The answer of `/v1/models`."""

    object: Literal["list"] = "list"
    data: list[ListedModel]


class EndpointCheck(BaseModel):
    """The answer of `/endpoint`."""

    endpoint: str
    """A short text about the endpoint."""
    facts: EndpointFacts


Made = TypeVar("Made")

_STREAMING = frozenset({"stream", "stream_options"})
"""Fields of a chat request about streaming. Only the front uses them."""


def _unpacked(message: ChatMessage) -> ChatMessage:
    if "provider_specific_fields" not in (message.model_extra or ()):
        return message
    return ChatMessage.model_construct(None, **unpacked(set_fields(message)))


class ModelServerConfig(ServerConfig):
    """The settings of a model server."""


class ModelServer(Server):
    """The base class of model servers. Subclass it and write `responses`, and also
    `chat_completions` if the endpoint supports it.
    """

    config: ModelServerConfig

    palestra_failures: ClassVar[frozenset[int]] = frozenset({400, 401, 422, 500, 504})

    _palestra_sessions: SessionStore = PrivateAttr(default_factory=lambda: SessionStore(keep=False))
    _palestra_capture: TurnCapture = PrivateAttr(default_factory=TurnCapture)

    @abstractmethod
    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Run one turn of the model."""

    async def chat_completions(self, body: ChatCreateParams, session: Session) -> ChatCompletion:
        """Return one chat completion. By default it is converted from the response of `responses`."""
        return completion_from_response(await self.responses(params_from_chat(body), session))

    async def _chat(
        self, body: ChatCreateParams, session: Session
    ) -> ChatCompletion | HttpResponse:
        fields = {name: value for name, value in fields_of(body).items() if name not in _STREAMING}
        fields["messages"] = [_unpacked(message) for message in body.messages]
        completion = await self._captured(
            self.chat_completions(ChatCreateParams.model_construct(None, **fields), session)
        )
        if not body.stream:
            return completion
        options = (body.model_extra or {}).get("stream_options") or {}
        events = chat_events(completion, with_usage=bool(options.get("include_usage")))
        return HttpResponse(events, media_type=EVENT_STREAM)

    async def messages(self, body: MessagesRequest, session: Session) -> MessagesAnswer:
        """Return one message of Anthropic's protocol, converted from the response of `responses`."""
        answering = self.responses(params_from_messages(body), session)
        return message_from_response(await self._captured(answering))

    async def _messages(
        self, body: MessagesRequest, session: Session
    ) -> MessagesAnswer | HttpResponse:
        answer = await self.messages(body, session)
        if not body.stream:
            return answer
        return HttpResponse(message_events(answer), media_type=EVENT_STREAM)

    async def list_models(self) -> list[str]:
        """Return the names of the models that this server offers."""
        return []

    async def check(self) -> str:
        """Check cheaply whether the endpoint answers. Return its answer as a short text.

        Raises `CallError`: the endpoint cannot be reached or rejects the key.
        """
        return NOT_ASKED

    def facts(self) -> EndpointFacts:
        """Return what is known about the endpoint, without a request to it."""
        return EndpointFacts()

    async def _models(self) -> ModelList:
        return ModelList(data=[ListedModel(id=name) for name in await self.list_models()])

    async def _check(self) -> EndpointCheck:
        return EndpointCheck(endpoint=await self.check(), facts=self.facts())

    @property
    def palestra_type(self) -> str:
        """The server type "model"."""
        return ServerType.MODEL

    def routes(self) -> list[Endpoint]:
        """Return the endpoints for responses, chat completions, messages and training."""
        return [
            self.endpoint(self._capturing(self.responses), "/v1/responses"),
            self.endpoint(
                self._chat,
                "/v1/chat/completions",
                answers={JSON_TYPE: ChatCompletion, EVENT_STREAM: str},
            ),
            self.endpoint(
                self._messages,
                "/v1/messages",
                answers={JSON_TYPE: MessagesAnswer, EVENT_STREAM: str},
            ),
            self.endpoint(self._training_run, TRAINING_RUN),
            self.endpoint(self._training_turns, TRAINING_TURNS),
        ]

    def _capturing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return `method` wrapped so that its answers are captured for trainers. The signature is
        unchanged.
        """
        capture = self._palestra_capture

        # No coroutine of its own: nearly always nothing is captured.
        @functools.wraps(method)
        def answer(*args: Any, **kwargs: Any) -> Any:
            called = method(*args, **kwargs)
            if not capture.is_open or not isinstance(called, Awaitable):
                return called
            return self._captured(called)

        return answer

    def _captured(self, call: Awaitable[Made]) -> Awaitable[Made]:
        return self._palestra_capture.during(call, self.token_verdict)

    def record_calls(self, recorder: CallRecorder) -> None:
        """Record every model call with `recorder` from now on, made with objects or over HTTP."""
        for path in DIALECTS:
            endpoint = self._palestra_endpoints.get(path)
            if endpoint is not None:
                endpoint.observe_with(functools.partial(observed, recorder))

    def token_verdict(self, tokens: TurnTokens) -> TokenVerdict:
        """Return the verdict on the token ids of an answer that is captured for a trainer."""
        return tokens.verdict

    async def _training_run(self, body: TrainingRun) -> JsonDict:
        self._palestra_capture.apply(body)
        return {}

    async def _training_turns(self, body: TurnsWanted) -> JsonDict:
        row = RowIdentity(body.task, body.rollout, body.attempt, run=body.run)
        turns: JsonDict = msgspec.to_builtins(self.captured_turns(row))
        return turns

    @property
    def asked_by_a_trainer(self) -> bool:
        """Whether the current call belongs to a trainer's rollout. The trainer checks its token
        ids.
        """
        return self._palestra_capture.captures_this_call

    def captured_turns(self, row: RowIdentity) -> TurnsTaken:
        """Return the captured turns of a rollout to a trainer in this process, and forget them."""
        return self._palestra_capture.take(row)

    def setup_webserver(self) -> FastAPI:
        """Return the app with the protocol's endpoints, the list of models and the endpoint check."""
        app = super().setup_webserver()
        app.add_api_route("/v1/models", self._models, methods=["GET"], response_model=ModelList)
        app.add_api_route(CHECK_PATH, self._check, methods=["GET"], response_model=EndpointCheck)
        return app


ONE_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class EndpointSaid:
    """A model server's description of its endpoint: a short text for people, and facts."""

    text: str
    facts: EndpointFacts


async def ask_endpoint(
    client: ServerClient, name: str, *, within_s: float = ONE_ANSWER_S
) -> EndpointSaid:
    """Ask the model server `name` about its endpoint. Raises `CallError`: the endpoint cannot be
    used.
    """
    with calling(CallContext(deadline=time.monotonic() + within_s)):
        reply = await client.get(name, CHECK_PATH, stateless=True)
    if reply.status in {404, 405}:
        return EndpointSaid("a server that cannot be asked for its endpoint", EndpointFacts())
    try:
        body = await reply.json()
    except ValueError:
        body = None
    if not reply.ok or not isinstance(body, Mapping):
        raise from_body(body) or InfraError(f"{name}{CHECK_PATH} answered {reply.status}")
    return EndpointSaid(str(body.get("endpoint")), _facts(body.get("facts")))


def _facts(facts: Any) -> EndpointFacts:
    """Parse the facts; return empty facts when a server of another version sends other fields."""
    try:
        return msgspec.convert(facts, EndpointFacts)
    except msgspec.ValidationError:
        return EndpointFacts()
