"""One failure planted at each place of a fleet: its class, its way and its row, in any placement.

Whatever relays a failure adds a hop; the message and the innermost body stay as they were.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from fleet_world import Project
from starlette.responses import Response as HttpResponse

from palestra.errors import CallError, CredentialsRejected, Layer, Outcome, RowIdentity, to_body
from palestra.fleet import EMBEDDED, PROCESS, Fleet
from palestra.fleet.sockets import http_url, listen, serving
from palestra.schema import VerifyResponse
from palestra.transport import CallContext, calling

ENVIRONMENT_APP = '''
from palestra.schema import Response, VerifyRequest, VerifyResponse, WireModel
from palestra.server import ResourcesServer, tool


class Row(VerifyRequest):
    fail: str = ""


class Seed(WireModel):
    fail: str = ""


class X(ResourcesServer):
    async def seed_session(self, body: Seed) -> WireModel:
        if body.fail == "seed":
            raise LookupError("no such board")
        return WireModel()

    async def consult(self, what: str) -> None:
        judge = self.server_client.peer("gone_judge" if what == "gone" else "judge")
        await judge.call("/v1/responses", {"input": what}, Response)

    @tool
    async def oracle(self) -> str:
        """Ask the judge."""
        await self.consult("fail")
        return "asked"

    async def verify(self, body: Row) -> VerifyResponse:
        if body.fail == "verify":
            raise ValueError("no answer in it")
        if body.fail == "reward":
            return self.reply(body, float("nan"))
        if body.fail.startswith("judge "):
            await self.consult(body.fail.removeprefix("judge "))
        return self.reply(body, 1.0)
'''
ENVIRONMENT_FILE = """
from palestra import environment

@environment(data=[], prompt="{question}")
def verify(answer: str) -> float:
    raise ZeroDivisionError("of its own")
"""
MODEL = """
{name}:
  responses_api_models:
    openai_model: {{openai_base_url: "{url}/v1", openai_model: m}}
"""
AGENT = """
{name}:
  responses_api_agents:
    simple_agent:
      resources_server: {{type: resources_servers, name: {environment}}}
      model_server: {{type: responses_api_models, name: policy}}
"""
ENVIRONMENTS = """
x:
  resources_servers:
    x: {}
file:
  resources_servers:
    environment_file: {path: file_environment.py}
"""
REFUSALS = {"unauthorized": 401, "reject": 400, "fail": 501}
REFUSAL = '{"error":{"message":"it refuses"}}'
ROW = RowIdentity(task=3, rollout=1, attempt=2, agent="agent", run="run-1")


def upstream() -> FastAPI:
    """An endpoint that does what the input says."""
    app = FastAPI()

    @app.post("/v1/responses")
    async def responses(request: Request) -> HttpResponse:
        told = (await request.json())["input"]
        what = told if isinstance(told, str) else ""
        if what in REFUSALS:
            return PlainTextResponse(REFUSAL, REFUSALS[what])
        if what == "rubbish":
            return PlainTextResponse("<html>rubbish</html>")
        call = {"type": "function_call", "name": "oracle", "arguments": "{}", "call_id": "1"}
        said = {"type": "message", "role": "assistant", "content": []}
        output = [call] if what == "call the tool" else [said]
        return PlainTextResponse(
            json.dumps({"id": "r", "created_at": 0, "model": "m", "output": output})
        )

    return app


@asynccontextmanager
async def running(project: Project, placement: str) -> AsyncIterator[tuple[Fleet, str]]:
    """The fleet, and the URL of its endpoint."""
    project.environment(ENVIRONMENT_APP)
    project.write("file_environment.py", ENVIRONMENT_FILE)
    with listen("127.0.0.1", 0) as sock, listen("127.0.0.1", 0) as gone:
        url = http_url("127.0.0.1", sock.getsockname()[1])
        refusing = http_url("127.0.0.1", gone.getsockname()[1])
        gone.close()
        config = project.load(
            ENVIRONMENTS
            + MODEL.format(name="policy", url=url)
            + MODEL.format(name="judge", url=url)
            + MODEL.format(name="gone_judge", url=refusing)
            + AGENT.format(name="agent", environment="x")
            + AGENT.format(name="file_agent", environment="file")
        )
        async with serving(upstream(), sock), Fleet(config, default_placement=placement) as fleet:
            yield fleet, url


@dataclass(frozen=True)
class Planted:
    """A row that fails, and what must become of it. `way`: server and status, outermost first."""

    input: str
    outcome: Outcome
    layer: Layer
    way: list[tuple[str, int | None]]
    body: str = ""
    fail: str = ""
    agent: str = "agent"
    metadata: str = "{}"
    says: str = ""


POLICY = ("policy", 500)
X = ("x", 500)
CASES = {
    "the endpoint fails": Planted(
        "fail",
        Outcome.POLICY_ERROR,
        Layer.MODEL,
        [("agent", 500), POLICY, ("policy", 501)],
        body=REFUSAL,
    ),
    "the endpoint rejects the row": Planted(
        "reject",
        Outcome.DATA_ERROR,
        Layer.MODEL,
        [("agent", 400), ("policy", 400), ("policy", 400)],
        body=REFUSAL,
    ),
    "the endpoint rejects the key": Planted(
        "unauthorized",
        Outcome.INFRA_ERROR,
        Layer.MODEL,
        [("agent", 500), POLICY, ("policy", 401)],
        body=REFUSAL,
    ),
    "the endpoint answers rubbish": Planted(
        "rubbish",
        Outcome.POLICY_ERROR,
        Layer.MODEL,
        [("agent", 500), POLICY, ("policy", 200)],
        body="<html>rubbish</html>",
    ),
    "the model server refuses the row": Planted(
        "fine",
        Outcome.DATA_ERROR,
        Layer.DATA,
        [("agent", 422), ("policy", 422)],
        metadata="[1]",
    ),
    "seeding raises": Planted(
        "fine",
        Outcome.ENVIRONMENT_ERROR,
        Layer.VERIFIER,
        [("agent", 500), X],
        fail="seed",
        says="x/seed_session raised LookupError: no such board",
    ),
    "a tool's own call fails": Planted(
        "call the tool",
        Outcome.JUDGE_ERROR,
        Layer.MODEL,
        [("agent", 500), X, ("judge", 500), ("judge", 501)],
        body=REFUSAL,
    ),
    "the verifier raises": Planted(
        "fine",
        Outcome.VERIFIER_ERROR,
        Layer.VERIFIER,
        [("agent", 500), X],
        fail="verify",
        says="x/verify raised ValueError: no answer in it",
    ),
    "the verifier gives no reward": Planted(
        "fine", Outcome.VERIFIER_ERROR, Layer.VERIFIER, [("agent", 500), X], fail="reward"
    ),
    "the judge fails": Planted(
        "fine",
        Outcome.JUDGE_ERROR,
        Layer.MODEL,
        [("agent", 500), X, ("judge", 500), ("judge", 501)],
        body=REFUSAL,
        fail="judge fail",
    ),
    "the judge is not there": Planted(
        "fine",
        Outcome.INFRA_ERROR,
        Layer.INFRA,
        [("agent", 500), X, ("gone_judge", 500), ("gone_judge", None)],
        fail="judge gone",
    ),
    "an environment of one file raises": Planted(
        "fine",
        Outcome.VERIFIER_ERROR,
        Layer.VERIFIER,
        [("file_agent", 500), ("file", 500)],
        agent="file_agent",
        says="file/verify raised ZeroDivisionError: of its own",
    ),
    "the agent refuses the row": Planted(
        "", Outcome.DATA_ERROR, Layer.DATA, [("agent", 422)], fail="no input"
    ),
}


async def failure(fleet: Fleet, case: Planted) -> CallError:
    params: dict[str, Any] = {"input": case.input, "metadata": {"extra_body": case.metadata}}
    if case.fail == "no input":
        del params["input"]
    row = {"responses_create_params": params, "fail": case.fail}
    # The endpoint that is gone is asked until there is no time left.
    within_s = 3 if "gone" in case.fail else 30
    context = CallContext(row=ROW, deadline=time.monotonic() + within_s)
    with calling(context), pytest.raises(CallError) as caught:
        await fleet.client.peer(case.agent).call("/run", row, VerifyResponse)
    return caught.value


@pytest.mark.parametrize("placement", [EMBEDDED, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_every_failure_has_its_class_its_way_and_its_row(project: Project, placement: str) -> None:
    async def run() -> dict[str, CallError]:
        async with running(project, placement) as (fleet, _):
            found = await asyncio.gather(*(failure(fleet, case) for case in CASES.values()))
            return dict(zip(CASES, found, strict=True))

    for name, error in asyncio.run(run()).items():
        case, hops = CASES[name], error.evidence.hops
        assert (error.outcome, error.layer) == (case.outcome, case.layer), (name, error.message)
        assert isinstance(error, CredentialsRejected) is (name == "the endpoint rejects the key")
        assert [(hop.server, hop.status) for hop in hops] == case.way, name
        assert [hop.body for hop in hops] == [""] * (len(hops) - 1) + [case.body], name
        assert error.evidence.row == ROW, name
        assert case.says in error.message, name
        _nothing_nested(error)


def _nothing_nested(error: CallError) -> None:
    told = to_body(error)["error"]
    texts = [told["message"], told["hint"], *(hop["body"] for hop in told["hops"])]
    assert not any('"hops"' in text or "Traceback" in text for text in texts)
