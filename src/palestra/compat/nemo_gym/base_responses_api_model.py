"""`nemo_gym.base_responses_api_model`: the base classes of a model server."""

from typing import ClassVar

from fastapi import Body, FastAPI, HTTPException, Request, Response

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
        app.post("/v1/chat/completions")(self.chat_completions)
        app.post("/v1/responses")(self.responses)

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
        return app

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


__all__ = [
    "BaseResponsesAPIModel",
    "BaseResponsesAPIModelConfig",
    "Body",
    "FastAPI",
    "NeMoGymChatCompletion",
    "NeMoGymChatCompletionCreateParamsNonStreaming",
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "Request",
    "Response",
    "SimpleResponsesAPIModel",
]
