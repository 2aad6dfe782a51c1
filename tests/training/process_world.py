"""A fleet of real processes: an environment, an agent and a model server that do as rows tell them."""

from pathlib import Path
from typing import Any

from palestra.config import ResolvedConfig, load_config
from palestra.fleet import Fleet
from palestra.training import RolloutRequest

ENVIRONMENT = """
import re
import time
from pathlib import Path
from palestra.schema import SeedSessionRequest, SeedSessionResponse, VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, Session

class X(ResourcesServer):
    async def seed_session(self, body: SeedSessionRequest, session: Session) -> SeedSessionResponse:
        session.at_end(Path("session-closed").touch)
        return SeedSessionResponse()

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        if (body.responses_create_params.metadata or {}).get("do") == "hold the lock":
            Path("holding").touch()
            re.match("(a+)+$", "a" * 40 + "b")
        if (body.responses_create_params.metadata or {}).get("do") == "sleep":
            time.sleep(0.8)
        return self.reply(body, 1.0)
"""
HOLDING = '            re.match("(a+)+$", "a" * 40 + "b")'
AGENT = """
import asyncio, os, resource, traceback
from palestra.responses_api_agents.simple_agent.app import SimpleAgent

def eat(limit=None):
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    held = []
    try:
        while True:
            held.append(bytearray(b"x" * (1 << 24)))
    except MemoryError:
        held.clear()
        traceback.print_exc()
        os._exit(1)

class Greedy(SimpleAgent):
    async def respond(self, params, *, environment, model):
        what = (params.metadata or {}).get("do")
        if what == "wait":
            print("a rollout waits", flush=True)
            await asyncio.Event().wait()
        if what == "eat":
            eat()
        if what == "eat within a limit":
            eat(2 << 30)
        return await super().respond(params, environment=environment, model=model)
"""
MODEL = """
from palestra.schema import Response, ResponseCreateParams, response_of
from palestra.server import ModelServer, Session

class Said(ModelServer):
    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        made = response_of("hello", model="m")
        item = made.output[-1]
        item.prompt_token_ids, item.generation_token_ids = [1, 2], [3]
        item.generation_log_probs = [-0.5]
        return made
"""
FLEET = """
policy_model: {responses_api_models: {MODEL}}
x: {resources_servers: {x: {}}}
agent:
  responses_api_agents:
    greedy:
      resources_server: {type: resources_servers, name: x}
      model_server: {type: responses_api_models, name: policy_model}
"""


def row(number: int, do: str = "") -> RolloutRequest:
    params: dict[str, Any] = {"input": "hello"} | ({"metadata": {"do": do}} if do else {})
    return RolloutRequest(row={"responses_create_params": params}, task_id=number)


def write_project(folder: Path, environment: str = ENVIRONMENT) -> None:
    """The folders of an environment, an agent and a model server that do as rows tell them."""
    for name, text in {
        "resources_servers/x": environment,
        "responses_api_agents/greedy": AGENT,
        "responses_api_models/said": MODEL,
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "app.py").write_text(text)


def config(project: Path, model: str = "said: {}") -> ResolvedConfig:
    path = project / "fleet.yaml"
    path.write_text(FLEET.replace("{MODEL}", "{" + model + "}"))
    return load_config(config_paths=[str(path)])


def pid_of(fleet: Fleet, name: str) -> int:
    pid = fleet.instances[name].pid
    assert pid is not None
    return pid
