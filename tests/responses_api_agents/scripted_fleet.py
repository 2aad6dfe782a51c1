"""A model that says what it is told to, an environment that notes what it is asked, an agent."""

import asyncio
from typing import Any

from pydantic import Field

from palestra.resources_servers.example_session_state_mgmt.app import CounterServer
from palestra.responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from palestra.schema import Response, ResponseCreateParams, VerifyRequest, VerifyResponse
from palestra.server import (
    ModelReference,
    ModelServer,
    ModelServerConfig,
    ResourcesReference,
    ResourcesServer,
    ResourcesServerConfig,
    Session,
    tool,
)
from palestra.transport import HttpClient, ServerClient, Target

ENVIRONMENT, MODEL = "environment", "policy_model"


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "m", "role": "assistant", "content": content}


def called(name: str, arguments: str = "{}", call_id: str = "c") -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def turn(*output: dict[str, Any], **fields: Any) -> Response:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    made = {"id": "r", "created_at": 0, "model": "m", "output": output, "usage": usage, **fields}
    return Response.model_validate(made)


class ScriptedModel(ModelServer):
    """Answers with its turns, one after the other, and keeps what it was asked."""

    turns: list[Response]
    asked: list[ResponseCreateParams] = Field(default_factory=list)

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        del session
        self.asked.append(body)
        return self.turns[len(self.asked) - 1]


class NotingEnvironment(ResourcesServer):
    """Two tools that tell when they ran, one that fails."""

    events: list[str] = Field(default_factory=list)

    @tool
    async def slow(self) -> str:
        """Take a while."""
        self.events.append("slow starts")
        await asyncio.sleep(0)
        self.events.append("slow ends")
        return "slow"

    @tool
    async def quick(self, word: str = "quick") -> str:
        """Say a word."""
        self.events.append("quick")
        return word

    @tool
    async def broken(self) -> str:
        """Fail."""
        raise ZeroDivisionError("by zero")

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


def client_of(environment: ResourcesServer, model: ModelServer) -> ServerClient:
    targets = {
        ENVIRONMENT: Target(ENVIRONMENT, "resources_servers", local=environment),
        MODEL: Target(MODEL, "responses_api_models", local=model),
    }
    return ServerClient(targets, HttpClient())


def nobody() -> ServerClient:
    return ServerClient({}, HttpClient())


def scripted(*turns: Response) -> ScriptedModel:
    config = ModelServerConfig(name=MODEL)
    return ScriptedModel(config=config, server_client=nobody(), turns=list(turns))


def noting() -> NotingEnvironment:
    return NotingEnvironment(config=ResourcesServerConfig(name=ENVIRONMENT), server_client=nobody())


def counter() -> CounterServer:
    return CounterServer(config=ResourcesServerConfig(name=ENVIRONMENT), server_client=nobody())


def agent_of(environment: ResourcesServer, model: ModelServer, **settings: Any) -> SimpleAgent:
    config = SimpleAgentConfig(
        name="agent",
        resources_server=ResourcesReference(type="resources_servers", name=ENVIRONMENT),
        model_server=ModelReference(type="responses_api_models", name=MODEL),
        **settings,
    )
    return SimpleAgent(config=config, server_client=client_of(environment, model))


def respond(agent: SimpleAgent, params: ResponseCreateParams) -> Response:
    """The loop alone, without seed and verify."""
    environment = agent.server_client.peer(ENVIRONMENT)
    model = agent.server_client.peer(MODEL)
    return asyncio.run(agent.respond(params, environment=environment, model=model))
