"""`nemo_gym.base_responses_api_model`: the base classes of a model server, and the capture of its
calls.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from fastapi import Body, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, model_validator

from palestra.compat.nemo_gym.config_types import BaseRunServerInstanceConfig
from palestra.compat.openai_types.chat import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
)
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.compat.servers import BaseServer, SimpleServer
from palestra.compat.streamed_answers import StreamedChat, StreamedResponses
from palestra.config import CaptureSettings, capture_settings
from palestra.errors import ConfigError
from palestra.observability import (
    CaptureLayer,
    CaptureStore,
    ModelCallRecord,
    TokenStore,
    aggregate_model_call_metrics,
    merge_model_call_capture_into_record,
    read_model_call_records,
)
from palestra.schema import JsonDict, encode_json
from palestra.schema import Response as OurResponse
from palestra.server import (
    EVENT_STREAM,
    MessagesRequest,
    message_events,
    message_from_response,
    params_from_messages,
)
from palestra.transport import call_asgi

_CaptureMiddleware = CaptureLayer
"""The name under which authors' tests know the layer."""


class ModelCallCaptureConfig(BaseModel):
    """The top-level settings of capture. The folder is absolute, and required when capture is on."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    observability_enabled: bool = False
    model_call_capture_dir: str | Path | None = None

    @model_validator(mode="after")
    def _has_a_folder(self) -> Self:
        try:
            capture_settings(self.model_dump())
        except ConfigError as error:
            raise ValueError(error.message) from None
        return self


class BaseResponsesAPIModelConfig(BaseRunServerInstanceConfig):
    """The settings of a model server. Subclass it to add your own fields."""


class BaseResponsesAPIModel(BaseServer):
    """The base of a model server: it holds the settings."""

    config: BaseResponsesAPIModelConfig


class SimpleResponsesAPIModel(BaseResponsesAPIModel, SimpleServer):
    """The base class of a model server. Define `responses`, and `chat_completions` if the endpoint
    has it.

    Requests of Anthropic's Messages API are served through `responses`.
    """

    __server_type__: ClassVar[str] = "responses_api_models"

    config: BaseResponsesAPIModelConfig

    def setup_webserver(self) -> FastAPI:
        """Return the app with the protocol's endpoints. Override this method to add routes."""
        app = FastAPI(title=self.config.name or type(self).__name__)
        self.setup_session_middleware(app)
        for path, method, route_class in (
            ("/v1/chat/completions", self.chat_completions, StreamedChat),
            ("/v1/responses", self.responses, StreamedResponses),
        ):
            app.router.add_api_route(
                path, method, methods=["POST"], route_class_override=route_class
            )

        async def messages(request_body: MessagesRequest, request: Request) -> Response:
            params = encode_json(params_from_messages(request_body))
            # Through the app: what `responses` takes besides the body is the author's affair.
            reply = await call_asgi(
                app, "POST", "/v1/responses", body=params, cookies=request.cookies
            )
            if reply.status >= 400:
                return Response(reply.body, reply.status, media_type="application/json")
            answer = message_from_response(OurResponse.model_validate_json(reply.body))
            if request_body.stream:
                return Response(message_events(answer), media_type=EVENT_STREAM)
            return Response(encode_json(answer), media_type="application/json")

        async def models() -> JsonDict:
            model_names = [getattr(self.config, name, None) for name in ("model", "openai_model")]
            data = [
                {"id": name, "object": "model"} for name in model_names if isinstance(name, str)
            ]
            return {"object": "list", "data": data}

        app.post("/v1/messages")(messages)
        app.get("/v1/models")(models)
        self._capture_calls(app)
        return app

    def _capture_calls(self, app: FastAPI) -> None:
        """Add the outermost layer, which reads the rollout of a path and captures model calls."""
        tree = getattr(self.server_client, "global_config_dict", None)
        settings = _capture_of(tree) if isinstance(tree, Mapping) else None
        store = token_store = None
        if settings is not None:
            store = CaptureStore(settings.folder) if settings.calls else None
            token_store = TokenStore(settings.folder) if settings.token_ids else None
        app.add_middleware(
            CaptureLayer,
            store=store,
            model_server_name=self.config.name,
            token_store=token_store,
            token_capture_enabled=token_store is not None,
        )

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming = Body()
    ) -> NeMoGymChatCompletion:
        """Return one chat completion for the request `body`."""
        del body
        raise HTTPException(501, f"{self.config.name} answers no chat completions")

    async def responses(
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """Return the model's response to one turn, the request `body`."""
        del body
        raise HTTPException(501, f"{self.config.name} answers no responses")


def _capture_of(tree: Mapping[Any, Any]) -> CaptureSettings | None:
    ModelCallCaptureConfig.model_validate(dict(tree))
    return capture_settings(tree)


__all__ = [
    "BaseResponsesAPIModel",
    "BaseResponsesAPIModelConfig",
    "Body",
    "CaptureStore",
    "FastAPI",
    "ModelCallCaptureConfig",
    "ModelCallRecord",
    "NeMoGymChatCompletion",
    "NeMoGymChatCompletionCreateParamsNonStreaming",
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "Request",
    "Response",
    "SimpleResponsesAPIModel",
    "aggregate_model_call_metrics",
    "merge_model_call_capture_into_record",
    "read_model_call_records",
]
