"""Own agents that call their environment wrongly: what the failure names, and what the row lists."""

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hosted_apps import ROW, run

from palestra.errors import AgentError, CallError, VerifierError
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse
from palestra.transport import Activity, CallContext, calling

ENVIRONMENT = """
class Shop(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self):
        app = super().setup_webserver()
        for tool in (self.count, self.refuse, self.crash):
            app.post(f"/{tool.__name__}")(tool)
        return app

    async def count(self, number: int = Body(embed=True)): return number
    async def refuse(self): raise HTTPException(404, "no such file")
    async def crash(self): return {}["boom"]

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        if body.responses_create_params.input.startswith("verifier raises"):
            raise ZeroDivisionError("by zero")
        return BaseVerifyResponse(**body.model_dump(), reward=0.0)
"""
STATELESS = ENVIRONMENT.replace("request: Request, ", "")
"""Its `verify` cannot read a session."""

AGENT = """
class Answer(BaseVerifyResponse):
    pass

class Own(SimpleResponsesAPIAgent):
    config: BaseResponsesAPIAgentConfig

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse: ...

    async def run(self, body: dict = Body()) -> Answer:
        slip = body["responses_create_params"]["input"]

        async def post(path, fields, server_name="shop", **options):
            return await self.server_client.post(server_name=server_name, url_path=path, json=fields, **options)

        if slip == "no slash":
            await post("seed_session", body)
        seeded = await post("/seed_session", body)
        cookies = seeded.cookies
        answer = await post("/v1/responses", {"input": "q"}, server_name="model")
        if slip == "wrong name":
            await post("/cuont", {"number": 1}, cookies=cookies)
        if slip == "wrong arguments":
            await post("/count", {"nubmer": 1}, cookies=cookies)
        if slip == "refused":
            await post("/refuse", {}, cookies=cookies)
        if slip == "crash without cookies":
            await post("/crash", {})
        if slip == "crash":
            await post("/crash", {}, cookies=cookies)
        if slip == "the model's name":
            await post("/lookup", {}, cookies=cookies)
        if slip == "answer of a tool":
            (await (await post("/cuont", {}, cookies=cookies)).json())["count"]
        request = {k: v for k, v in body.items() if slip != "no response" or k != "response"}
        options = {} if slip.endswith("no cookies") else {"cookies": cookies}
        verdict = await (await post("/verify", request, **options)).json()
        return Answer.model_validate(verdict)
"""
MODEL = """
class Model(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        call = NeMoGymResponseFunctionToolCall(call_id="c", name="lookup", arguments="{}")
        return NeMoGymResponse(id="r", created_at=0, model="m", output=[call])
"""


def result_of(root: Path, slip: str, environment: str = ENVIRONMENT) -> VerifyResponse:
    """The result of a rollout in which the agent makes a slip. Raises what the rollout fails with."""
    results: list[VerifyResponse] = []

    async def check(fleet: Fleet) -> None:
        row = {**ROW, "responses_create_params": {"input": slip}}
        with calling(CallContext(activity=Activity())):
            results.append(await fleet.client.peer("own").call("/run", row, VerifyResponse))

    apps = {
        "resources_servers/shop": environment,
        "responses_api_agents/own": AGENT,
        "responses_api_models/model": MODEL,
    }
    run(root, apps, check)
    return results[0]


def failure_of(root: Path, slip: str) -> CallError:
    with pytest.raises(CallError) as failure:
        result_of(root, slip)
    return failure.value


def tool_failures_of(root: Path, slip: str, environment: str = ENVIRONMENT) -> Any:
    return (result_of(root, slip, environment).model_extra or {}).get("tool_failures")


def test_a_path_without_its_slash_is_an_error_of_the_agents_line(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "no slash")

    assert isinstance(failure, AgentError)
    assert "write '/seed_session'" in failure.message
    assert "responses_api_agents/own/app.py" in failure.evidence.traceback


def test_a_verify_request_that_is_refused_names_the_field_whatever_the_agent_reads(
    tmp_path: Path,
) -> None:
    failure = failure_of(tmp_path, "no response")

    assert isinstance(failure, AgentError)
    assert "shop/verify rejects the body: /response: Field required" in failure.message
    assert failure.message.count("Field required") == 1
    assert "own/run then failed on this answer: ValidationError of " in failure.message


def test_an_error_of_the_verifier_is_the_verifiers_whatever_the_agent_reads(
    tmp_path: Path,
) -> None:
    failure = failure_of(tmp_path, "verifier raises")

    assert isinstance(failure, VerifierError)
    assert "shop/verify raised ZeroDivisionError: by zero" in failure.message


def test_a_verifier_that_fails_in_a_session_that_the_agent_lost_is_the_agents_failure(
    tmp_path: Path,
) -> None:
    failure = failure_of(tmp_path, "verifier raises, no cookies")

    assert isinstance(failure, AgentError)
    assert "own/run calls shop/verify without the cookies" in failure.message
    assert "shop/verify raised ZeroDivisionError: by zero" in failure.message
    assert "cookies=<the answer of /seed_session>.cookies" in failure.hint


def test_an_agent_that_fails_on_a_tools_refusal_names_it(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "answer of a tool")

    assert isinstance(failure, AgentError)
    assert "shop has no endpoint POST /cuont; did you mean '/count'?" in failure.message
    assert "KeyError: 'count'" in failure.message


@pytest.mark.parametrize(
    ("slip", "fault"),
    [
        ("wrong name", ("cuont", "HTTP 404", "shop has no endpoint POST /cuont")),
        ("wrong arguments", ("count", "HTTP 422", "/number: Field required")),
        ("crash", ("crash", "KeyError", "'boom'")),
        ("crash without cookies", ("crash", "KeyError", "'boom'")),
        ("no cookies", ("verify", "SessionLost", "own/run calls shop/verify without the cookies")),
    ],
)
def test_a_wrong_call_of_the_environment_is_in_the_row(
    tmp_path: Path, slip: str, fault: tuple[str, str, str]
) -> None:
    (entry,) = tool_failures_of(tmp_path, slip)

    tool, kind, text = fault
    assert (entry["tool"], entry["type"]) == (tool, kind)
    assert text in entry["message"]


@pytest.mark.parametrize("slip", ["crash", "crash without cookies"])
def test_a_tool_that_raised_is_in_the_row_with_its_line(tmp_path: Path, slip: str) -> None:
    (entry,) = tool_failures_of(tmp_path, slip)

    assert re.fullmatch(r"/.*/app\.py:\d+ in crash", entry["at"])


@pytest.mark.parametrize("slip", ["none", "refused", "the model's name"])
def test_answers_that_are_meant_for_the_model_are_not_in_the_row(tmp_path: Path, slip: str) -> None:
    assert tool_failures_of(tmp_path, slip) is None


def test_a_verification_that_reads_no_session_needs_no_cookies(tmp_path: Path) -> None:
    assert tool_failures_of(tmp_path, "no cookies", STATELESS) is None


def test_a_lost_session_is_a_warning_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(fleet: Fleet) -> None:
        row = {**ROW, "responses_create_params": {"input": "no cookies"}}
        rollouts = [fleet.client.peer("own").call("/run", row, VerifyResponse) for _ in range(3)]
        await asyncio.gather(*rollouts)

    with caplog.at_level(logging.WARNING):
        apps = {
            "resources_servers/shop": ENVIRONMENT,
            "responses_api_agents/own": AGENT,
            "responses_api_models/model": MODEL,
        }
        run(tmp_path, apps, check)

    (warning,) = [text for text in caplog.messages if "without the cookies" in text]
    assert warning.startswith("own/run calls shop/verify")
