"""`responses_api_agents.simple_agent.app`: the plain tool-calling agent, for agents of the field that
subclass it.

    class MyAgent(SimpleAgent):
        async def responses(self, request, response, body=Body()):
            body = body.model_copy(update={"instructions": "You run a warehouse."})
            return await super().responses(request, response, body)

A fleet that has `simple_agent` itself uses Palestra's own, which has the same loop. A project that
has its own `responses_api_agents/simple_agent` uses that.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import Body, Request, Response
from pydantic import ConfigDict, Field

from palestra.compat.client_response import ClientResponse
from palestra.compat.http import cookie_values, get_response_json, raise_for_status
from palestra.compat.nemo_gym.base_resources_server import (
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
)
from palestra.compat.nemo_gym.base_responses_api_agent import (
    RESPONSES_PATH,
    BaseResponsesAPIAgentConfig,
    SimpleResponsesAPIAgent,
)
from palestra.compat.nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from palestra.compat.openai_types.items import NeMoGymEasyInputMessage
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.responses_api_agents.simple_agent.app import play_turns
from palestra.schema import JsonObject, ResponseCreateParams, to_plain
from palestra.schema import Response as ModelAnswer
from palestra.transport import no_such_tool, tool_path


class SimpleAgentConfig(BaseResponsesAPIAgentConfig):
    """The settings of `SimpleAgent`."""

    resources_server: ResourcesServerRef
    """The environment: it seeds the session, runs the tools and verifies."""

    model_server: ModelServerRef
    """The model server that serves the policy."""

    max_steps: int | None = Field(default=None, ge=1)
    """The maximum number of model calls in one rollout; None: no limit besides the model's context.
    """


class SimpleAgentRunRequest(BaseRunRequest):
    """One task row, with all its fields."""

    model_config = ConfigDict(extra="allow")


class SimpleAgentVerifyRequest(BaseVerifyRequest):
    """The task row and the trajectory."""

    model_config = ConfigDict(extra="allow")


class SimpleAgentVerifyResponse(BaseVerifyResponse):
    """The result of a rollout, with all that the environment reports."""

    model_config = ConfigDict(extra="allow")


class SimpleAgent(SimpleResponsesAPIAgent):
    """The plain tool-calling agent. Override `responses`, `run` or both."""

    config: SimpleAgentConfig

    async def responses(  # type: ignore[override]  # as the field's agents declare it
        self,
        request: Request,
        response: Response,
        body: NeMoGymResponseCreateParamsNonStreaming = Body(),
    ) -> NeMoGymResponse:
        """Run the loop of model calls and tool calls. The output is the whole trajectory."""
        model = _Conversation(self, self.config.model_server.name)
        environment = _Conversation(self, self.config.resources_server.name, request.cookies)

        async def ask_model(params: ResponseCreateParams) -> ModelAnswer:
            return ModelAnswer.model_validate(await model.answer(RESPONSES_PATH, params))

        async def call_tool(name: str, arguments: JsonObject) -> str:
            path = tool_path(name)
            if path is None:
                return no_such_tool(name)
            reply = await environment.post(path, arguments)
            if isinstance(reply, ClientResponse) and reply.is_tool_lost:
                reply.raise_for_status()
            return bytes(await reply.content.read()).decode("utf-8", "replace")

        if isinstance(body.input, str):
            # The field's model servers expect items from this agent.
            question = NeMoGymEasyInputMessage(role="user", content=body.input)
            body = body.model_copy(update={"input": [question]})
        params = ResponseCreateParams.model_validate(to_plain(body))
        last = await play_turns(params, ask_model, call_tool, max_turns=self.config.max_steps)
        for conversation in (environment, model):
            for name, value in (cookie_values(conversation.cookies) or {}).items():
                response.set_cookie(name, value)
        return NeMoGymResponse.model_validate(to_plain(last))

    async def run(  # type: ignore[override]  # as the field's agents declare it
        self, request: Request, body: SimpleAgentRunRequest
    ) -> SimpleAgentVerifyResponse:
        """Run one rollout: seed the session, call `/v1/responses` of this agent, verify."""
        environment = _Conversation(self, self.config.resources_server.name, request.cookies)
        row = body.model_dump()
        await environment.answer("/seed_session", row)
        loop = _Conversation(self, self.config.name, environment.cookies)
        answer = await loop.answer(RESPONSES_PATH, body.responses_create_params)
        if self.config.skip_verification:
            result = row | {"response": answer, "reward": self.config.skip_verification_reward}
            return SimpleAgentVerifyResponse.model_validate(result)
        environment.cookies = loop.cookies
        verify_request = SimpleAgentVerifyRequest.model_validate(row | {"response": answer})
        return SimpleAgentVerifyResponse.model_validate(
            await environment.answer("/verify", verify_request.model_dump())
        )


class _Conversation:
    """Calls of one server, which send the cookies of the last answer again."""

    def __init__(
        self,
        agent: SimpleAgent,
        server: str,
        cookies: Mapping[str, Any] | None = None,
    ) -> None:
        self._client = agent.server_client
        self._server = server
        self.cookies = cookies

    async def post(self, path: str, body: Any) -> Any:
        """Return the reply, of any status."""
        reply = await self._client.post(
            server_name=self._server, url_path=path, json=body, cookies=self.cookies
        )
        self.cookies = reply.cookies
        return reply

    async def answer(self, path: str, body: Any) -> Any:
        """Return the JSON of the reply. Raises an error for an error status."""
        reply = await self.post(path, body)
        await raise_for_status(reply)
        return await get_response_json(reply)


__all__ = [
    "ModelServerRef",
    "ResourcesServerRef",
    "SimpleAgent",
    "SimpleAgentConfig",
    "SimpleAgentRunRequest",
    "SimpleAgentVerifyRequest",
    "SimpleAgentVerifyResponse",
]
