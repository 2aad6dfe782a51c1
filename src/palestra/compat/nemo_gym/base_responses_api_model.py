"""`nemo_gym.base_responses_api_model`: what answers as a model."""

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
    """Settings of a model server; add your own as fields of a subclass."""


class BaseResponsesAPIModel(BaseServer):
    """A model server's settings."""

    config: BaseResponsesAPIModelConfig


class SimpleResponsesAPIModel(BaseResponsesAPIModel, SimpleServer):
    """Subclass this: `responses`, and `chat_completions` where the endpoint has it.

    Anthropic's Messages are served by way of `responses`.
    """

    __server_type__: ClassVar[str] = "responses_api_models"

    config: BaseResponsesAPIModelConfig

    def setup_webserver(self) -> FastAPI:
        """The app with the protocol's endpoints; override to add routes."""
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
        """One chat completion."""
        del body
        raise HTTPException(501, f"{self.config.name} answers no chat completions")

    async def responses(
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """One turn of the model."""
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
