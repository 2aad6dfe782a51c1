"""A user's project: a stateful environment and a scripted model, each a folder with an app.py."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from palestra.config import ResolvedConfig, load_config
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse, encode_json

ENVIRONMENT_APP = '''
import os

from palestra.schema import VerifyRequest, VerifyResponse, WireModel
from palestra.server import ResourcesServer, Session, tool


class Adding(WireModel):
    start: int


class X(ResourcesServer):
    async def start(self) -> None:
        print("x is here", flush=True)

    async def seed_session(self, body: Adding, session: Session) -> WireModel:
        session.state["total"] = body.start
        return WireModel()

    @tool
    async def add(self, amount: int, session: Session) -> str:
        """Add to the total."""
        session.state["total"] += amount
        return f"the total is {session.state['total']}"

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        total = session.state.get("total", -1)
        right = body.response.final_text == f"the total is {total}"
        return self.reply(body, float(right), total=total, pid=os.getpid())
'''
MODEL_APP = '''
import json

from palestra.schema import FunctionCallOutput, Response, ResponseCreateParams
from palestra.server import ModelServer, Session


class Scripted(ModelServer):
    """Adds two, then says what it was told."""

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        told = [] if isinstance(body.input, str) else body.input
        outputs = [item.output for item in told if isinstance(item, FunctionCallOutput)]
        if outputs:
            content = [{"type": "output_text", "text": outputs[-1], "annotations": []}]
            item = {"type": "message", "role": "assistant", "content": content}
        else:
            arguments = json.dumps({"amount": 2})
            item = {"type": "function_call", "name": "add", "arguments": arguments, "call_id": "1"}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        made = {"id": "r", "created_at": 0, "model": "m", "output": [item], "usage": usage}
        return Response.model_validate(made)
'''
FLEET = """
policy_model:
  responses_api_models:
    scripted: {}
x:
  resources_servers:
    x: {}
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: x}
      model_server: {type: responses_api_models, name: policy_model}
policy_api_key: sk-very-secret-1234
"""
X_ALONE = """
x:
  resources_servers:
    x: {}
policy_api_key: sk-very-secret-1234
"""


@dataclass(frozen=True)
class Project:
    """A folder that is the working directory of a test."""

    path: Path

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def environment(self, text: str = ENVIRONMENT_APP) -> None:
        self.write("resources_servers/x/app.py", text)

    def load(self, text: str = FLEET, *overrides: str) -> ResolvedConfig:
        self.write("resources_servers/x/configs/x.yaml", text)
        return load_config(config_paths=["resources_servers/x/configs/x.yaml"], overrides=overrides)


def starting(body: str) -> str:
    """An environment whose `start` does `body`."""
    return ENVIRONMENT_APP.replace('print("x is here", flush=True)', body)


async def rollout(fleet: Fleet, start: int = 40) -> dict[str, Any]:
    """One rollout's result, without what tells one process from another."""
    row = {"responses_create_params": {"input": "Add."}, "start": start}
    result = await fleet.client.peer("agent").call("/run", row, VerifyResponse)
    found: dict[str, Any] = orjson.loads(encode_json(result))
    return found


def without_pid(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "pid"}


def ports_of(fleet: Fleet) -> list[int]:
    urls = [url for instance in fleet.instances.values() for url in instance.urls]
    return [port for url in urls if (port := urlsplit(url).port) is not None]


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def children_of(pid: int | str) -> set[int]:
    """Processes that `pid` started and that still exist, zombies included."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for task in tasks for child in task.read_text().split()}


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def eventually(holds: Callable[[], bool], *, within_s: float = 10) -> bool:
    """Whether it comes to hold in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True
