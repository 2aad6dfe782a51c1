"""Servers written against `nemo_gym`, and methods kept out of workers, that hold the command's process."""

import json

import pytest
from cli_world import OPENAI, Done, FakeEndpoint, World

pytestmark = [pytest.mark.slow, pytest.mark.alone]

TIMEOUT_S = 4
FIELD = """
import re

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)


class HoldingConfig(BaseResourcesServerConfig):
    pass


class HoldingRequest(BaseVerifyRequest):
    q: str


class Holding(SimpleResourcesServer):
    config: HoldingConfig

    async def verify(self, body: HoldingRequest) -> BaseVerifyResponse:
        if body.q == "2":
            re.match(r"(a+)+$", "a" * 40 + "b")
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


if __name__ == "__main__":
    Holding.run_webserver()
"""
SEED = """
import re
from typing import ClassVar

from palestra.schema import SeedSessionRequest, SeedSessionResponse, VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class Row(SeedSessionRequest):
    q: str


class Holding(ResourcesServer):
    isolated: ClassVar[bool] = False

    def seed_session(self, body: Row) -> SeedSessionResponse:
        if body.q == "2":
            re.match(r"(a+)+$", "a" * 40 + "b")
        return SeedSessionResponse()

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)
"""
TOOL = """
import re
from typing import ClassVar

from palestra.schema import SeedSessionRequest, SeedSessionResponse, VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, Session, tool


class Row(SeedSessionRequest):
    q: str


class Holding(ResourcesServer):
    isolated: ClassVar[bool] = False

    async def seed_session(self, body: Row, session: Session) -> SeedSessionResponse:
        session.state["q"] = body.q
        return SeedSessionResponse()

    @tool
    def look(self, session: Session) -> str:
        \"\"\"Look.\"\"\"
        if session.state["q"] == "2":
            re.match(r"(a+)+$", "a" * 40 + "b")
        return "seen"

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)
"""
CONFIG = """
holding: {resources_servers: {holding: {entrypoint: app.py}}}
agent:
  responses_api_agents:
    simple_agent:
      max_steps: 2
      resources_server: {type: resources_servers, name: holding}
      model_server: {type: responses_api_models, name: policy_model}
"""


def collecting(world: World, fake: FakeEndpoint, app: str, *more: str) -> Done:
    """A collection whose third task never comes back from `app`."""
    (world.folder / "resources_servers/holding").mkdir(parents=True, exist_ok=True)
    world.write("resources_servers/holding/app.py", app)
    world.write("holding.yaml", CONFIG)
    rows = [{"q": str(n), "responses_create_params": {"input": str(n)}} for n in range(4)]
    world.write("tasks.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return world.run(
        *("palestra", "collect", "-c", "holding.yaml", "-c", OPENAI, world.head, *fake.policy),
        *("--agent", "agent", "--input", "tasks.jsonl", "--output", "r.jsonl"),
        *("--rollout-timeout", str(TIMEOUT_S), *more),
    )


def call_of_look() -> dict[str, object]:
    """A model's answer that calls the tool."""
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": "{}"}
    return {**FakeEndpoint().body, "output": [call]}


@pytest.mark.parametrize(
    ("app", "function", "failure"),
    [
        pytest.param(FIELD, "verify", "verifier_error", id="nemo_gym"),
        pytest.param(SEED, "seed_session", "environment_error", id="seed_session"),
        pytest.param(TOOL, "look", "environment_error", id="tool"),
    ],
)
def test_what_holds_the_process_is_named_and_the_others_are_collected(
    world: World, fake: FakeEndpoint, app: str, function: str, failure: str
) -> None:
    if function == "look":
        fake.body = call_of_look()

    done = collecting(world, fake, app)
    again = collecting(world, fake, app, "--resume")

    line = 1 + next(n for n, text in enumerate(app.splitlines()) if "re.match" in text)
    where = f"in {function}, {world.folder}/resources_servers/holding/app.py:{line}"
    assert done.code == 1
    assert "error: rollout 2:0: holding/" in done.err
    assert where in done.err
    assert f"requested 4 = scored 3 + failed 1 ({failure} 1)" in again.out, again.err
    [row] = world.rows("r_failures.jsonl")
    assert (row["_ng_task_index"], row["_ng_failure_class"]) == (2, failure)
