"""`ModelServer`: turns Responses API requests into calls of a real endpoint."""

from abc import abstractmethod

from fastapi import FastAPI
from pydantic import PrivateAttr
from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from palestra.errors import CallError, Evidence, ModelError
from palestra.schema import (
    ChatCompletion,
    ChatCreateParams,
    Response,
    ResponseCreateParams,
    encode_json,
)
from palestra.serving.endpoints import JSON_TYPE, Endpoint
from palestra.serving.server import Server, ServerConfig
from palestra.serving.sessions import Session, SessionStore

CHECK_PATH = "/endpoint"
"""Where a model server says what its endpoint is and whether it answers."""


class ModelServerConfig(ServerConfig):
    """Settings of a model server."""


class ModelServer(Server):
    """Subclass this and write `responses`; `chat_completions` where the endpoint has it."""

    config: ModelServerConfig

    _sessions: SessionStore = PrivateAttr(default_factory=lambda: SessionStore(keep=False))

    @abstractmethod
    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """One turn of the model."""

    async def chat_completions(self, body: ChatCreateParams, session: Session) -> ChatCompletion:
        """One chat completion; `ModelError` where the endpoint behind this server has none."""
        del body, session
        raise ModelError(
            f"{self.name} does not serve /v1/chat/completions",
            hint="use /v1/responses, or a vllm_model in front of a Chat Completions endpoint",
        )

    async def list_models(self) -> list[str]:
        """Names of the models behind this server."""
        return []

    async def check(self) -> str:
        """Ask the endpoint, cheaply, whether it is there; what it answered, in a few words.

        Raises `CallError` when it cannot be reached or rejects the key.
        """
        return "not checked"

    async def _models(self, _request: Request) -> HttpResponse:
        data = [{"id": name, "object": "model"} for name in await self.list_models()]
        return HttpResponse(encode_json({"object": "list", "data": data}), media_type=JSON_TYPE)

    async def _check(self, _request: Request) -> HttpResponse:
        return HttpResponse(encode_json({"endpoint": await self.check()}), media_type=JSON_TYPE)

    def own_failure(self, message: str, evidence: Evidence) -> CallError:
        """An exception of a model server's own code is a failure of model serving."""
        return ModelError(message, evidence=evidence)

    def routes(self) -> list[Endpoint]:
        """Responses and chat completions."""
        return [
            self.endpoint(self.responses, "/v1/responses"),
            self.endpoint(self.chat_completions, "/v1/chat/completions"),
        ]

    def setup_webserver(self) -> FastAPI:
        """The protocol's endpoints and the list of models."""
        app = super().setup_webserver()
        app.add_route("/v1/models", self._models, methods=["GET"])
        app.add_route(CHECK_PATH, self._check, methods=["GET"])
        return app
