"""Rewards and failed tools that servers of the field return, and what of them reaches the row."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Response
from hosted_apps import ROW, run
from starlette.responses import JSONResponse

from palestra.compat.results import complete_results
from palestra.errors import RowIdentity, VerifierError
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse
from palestra.transport import Activity, CallContext, call_asgi, calling

MIDDLEWARE = """
        @app.middleware("http")
        async def own(request, call_next):
            return await call_next(request)
"""
"""With it, the author's routes need the whole app."""

ENVIRONMENT = """
class Unsure(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/lookup")(self.lookup)
{middleware}
        return app

    async def lookup(self, body: dict = Body()):
        return {{"Rome": "sunny"}}[body["city"]]

    {kind} verify(self, body: BaseVerifyRequest) -> BaseMultiRewardVerifyResponse:
        reward, part = {{"nan": (float("nan"), 1.0), "part": (1.0, float("inf"))}}.get(
            body.responses_create_params.input, (1.0, 1.0)
        )
        return BaseMultiRewardVerifyResponse(
            **body.model_dump(), reward=reward, reward_components={{"a": part}}
        )
"""

AGENT = """
class Answer(BaseVerifyResponse):
    correct: bool = True

class Own(SimpleResponsesAPIAgent):
    config: BaseResponsesAPIAgentConfig

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse: ...

    async def run(self, request: Request, body: dict = Body()) -> Answer:
        if body["responses_create_params"]["input"] == "own":
            return Answer(**{**body, "reward": float("nan")})
        seeded = await self.server_client.post("unsure", "/seed_session", json=body)
        tool = await self.server_client.post("unsure", "/lookup", json={"city": body["city"]}, cookies=seeded.cookies)
        verdict = await self.server_client.post("unsure", "/verify", json=body, cookies=tool.cookies)
        await raise_for_status(verdict)
        row = await get_response_json(verdict)
        return Answer(**{**row, "reward": row["reward"] or 0.0})
"""


def fleet_of(root: Path, check: Any, *, middleware: bool = False, kind: str = "async def") -> None:
    """Run `check` with the environment and the agent. `middleware`: the environment has its own."""
    source = ENVIRONMENT.format(middleware=MIDDLEWARE if middleware else "", kind=kind)
    run(root, {"resources_servers/unsure": source, "responses_api_agents/own": AGENT}, check)


def row_of(question: str, city: str = "Rome") -> dict[str, Any]:
    return {**ROW, "responses_create_params": {"input": question}, "city": city}


@pytest.mark.parametrize("middleware", [False, True], ids=["direct", "whole app"])
@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("nan", "unsure/verify returned nan, which is not a reward"),
        ("part", "unsure/verify returned the component 'a': inf, which is not a reward"),
    ],
)
def test_a_reward_that_is_not_finite_fails_the_verifier_whatever_the_agent_makes_of_it(
    tmp_path: Path, question: str, reason: str, kind: str, middleware: bool
) -> None:
    async def check(fleet: Fleet) -> None:
        with pytest.raises(VerifierError) as failure:
            await fleet.client.peer("own").call("/run", row_of(question), VerifyResponse)
        assert reason in failure.value.message

    fleet_of(tmp_path, check, middleware=middleware, kind=kind)


def test_an_agent_that_verifies_itself_returns_a_finite_reward(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        with pytest.raises(VerifierError, match="own/run returned nan, which is not a reward"):
            await fleet.client.peer("own").call("/run", row_of("own"), VerifyResponse)

    fleet_of(tmp_path, check)


@pytest.mark.parametrize("cookies", [None, {"other": "server"}], ids=["embedded", "over HTTP"])
@pytest.mark.parametrize("middleware", [False, True], ids=["direct", "whole app"])
def test_failed_tools_are_in_the_row_whatever_the_agents_response_model_has(
    tmp_path: Path, cookies: dict[str, str] | None, middleware: bool
) -> None:
    async def check(fleet: Fleet) -> None:
        peer = fleet.client.peer("own", cookies=cookies)
        broken = await peer.call("/run", row_of("", city="Oslo"), VerifyResponse)
        whole = await peer.call("/run", row_of(""), VerifyResponse)

        (fault,) = (broken.model_extra or {})["tool_failures"]
        assert fault.pop("at").endswith(" in lookup")
        assert fault == {"tool": "lookup", "type": "KeyError", "message": "'Oslo'"}
        assert "tool_failures" not in (whole.model_extra or {})

    fleet_of(tmp_path, check, middleware=middleware)


def whole_response() -> JSONResponse:
    response = JSONResponse({"reward": 1.0}, 202, {"x-run": "7"})
    response.set_cookie("visited", "yes")
    return response


def injected_response(response: Response) -> dict[str, float]:
    response.status_code = 202
    response.headers["x-run"] = "7"
    response.set_cookie("visited", "yes")
    return {"reward": 1.0}


@pytest.mark.parametrize("function", [whole_response, injected_response])
def test_failed_tools_leave_the_status_the_headers_and_the_cookies_as_they_are(
    function: Any,
) -> None:
    app = FastAPI()
    app.post("/run", response_model=None)(function)
    complete_results(app, "own")

    with calling(CallContext(activity=Activity(tool_failures=[{"tool": "lookup"}]))):
        reply = asyncio.run(call_asgi(app, "POST", "/run"))

    assert json.loads(reply.body) == {"reward": 1.0, "tool_failures": [{"tool": "lookup"}]}
    assert (reply.status, reply.headers["x-run"], reply.cookies) == (202, "7", {"visited": "yes"})
    assert int(reply.headers["content-length"]) == len(reply.body)


def test_the_status_of_a_route_is_kept_with_failed_tools() -> None:
    app = FastAPI()
    app.post("/run", status_code=201)(lambda: {"reward": 1.0})
    complete_results(app, "own")

    with calling(CallContext(activity=Activity(tool_failures=[{"tool": "lookup"}]))):
        reply = asyncio.run(call_asgi(app, "POST", "/run"))

    assert reply.status == 201
    assert "tool_failures" in json.loads(reply.body)


UNCHECKED = """
class Loose(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self):
        app = super().setup_webserver()
{middleware}
        return app

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse.model_construct(**body.model_dump(), reward="1.0")
"""


@pytest.mark.parametrize("middleware", ["", MIDDLEWARE], ids=["direct", "whole app"])
def test_an_answer_with_fields_of_wrong_types_is_one_warning_with_its_server(
    tmp_path: Path, middleware: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(fleet: Fleet) -> None:
        with calling(CallContext(row=RowIdentity(task=3, rollout=1))):
            for _ in range(2):
                verdict = await fleet.client.peer("loose").call("/verify", ROW, VerifyResponse)
                assert verdict.reward == 1.0

    run(tmp_path, {"resources_servers/loose": UNCHECKED.format(middleware=middleware)}, check)

    [warning] = [text for text in caplog.messages if "fields of other types" in text]
    assert warning.startswith("loose/verify returned a BaseVerifyResponse")
    assert "in rollout 3:1" in warning
    assert "reward: str, expected float" in warning
