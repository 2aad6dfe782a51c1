"""`nemo_gym.judge`: judge errors, and the row that a verifier answers when its judge failed."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import orjson
import pytest
from bare_apps import ROW, client_of, server_of
from fastapi import FastAPI, Request
from hosted_apps import JUDGE, run
from hosted_apps import ROW as FLEET_ROW
from test_compat_marked_results import collected

from palestra.compat.nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from palestra.compat.nemo_gym.judge import JudgeError, judge_failsafe, reraise_judge_errors
from palestra.errors import JudgeFailure, JudgeUnavailable, Layer, VerifierError
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse


async def result(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value


def test_reraise_judge_errors_returns_the_result() -> None:
    assert asyncio.run(reraise_judge_errors(result(3))) == 3


def test_reraise_judge_errors_passes_a_judge_error_on_unchanged() -> None:
    error = JudgeError("no verdict")

    with pytest.raises(JudgeError) as raised:
        asyncio.run(reraise_judge_errors(result(error)))

    assert raised.value is error


def test_reraise_judge_errors_names_the_type_of_another_error_and_keeps_it_as_the_cause() -> None:
    error = ValueError("not JSON")

    with pytest.raises(JudgeError) as raised:
        asyncio.run(reraise_judge_errors(result(error)))

    assert str(raised.value) == "ValueError: not JSON"
    assert raised.value.__cause__ is error


def test_reraise_judge_errors_passes_cancellation_on() -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(reraise_judge_errors(result(asyncio.CancelledError())))


class Judged(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        if request.headers.get("x-judge") == "gone":
            raise JudgeError("the judge is gone")
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


class Replacing(Judged):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.router.routes = [r for r in app.router.routes if getattr(r, "path", "") != "/verify"]
        app.post("/verify")(judge_failsafe(self.verify))
        return app


@pytest.mark.parametrize("cls", [Judged, Replacing])
def test_judge_failsafe_answers_a_failed_row_on_a_bare_app(cls: Any) -> None:
    client = client_of(server_of(cls).setup_webserver())

    row = client.post("/verify", json=ROW, headers={"x-judge": "gone"})

    assert row.status_code == 200
    marks = {name: value for name, value in row.json().items() if name not in ROW}
    assert marks == {
        "reward": 0.0,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": "the judge is gone",
    }
    assert row.json()["response"]["id"] == "r"
    assert client.post("/verify", json=ROW).json()["reward"] == 1.0


def test_judge_failsafe_keeps_the_signature_and_the_function() -> None:
    server = server_of(Judged)
    wrapped = judge_failsafe(server.verify)

    assert list(inspect.signature(wrapped).parameters) == ["request", "body"]
    assert inspect.signature(wrapped).parameters["body"].annotation is BaseVerifyRequest
    assert wrapped.__wrapped__ == server.verify  # type: ignore[attr-defined]


def test_judge_failsafe_takes_the_first_argument_that_is_a_verify_request() -> None:
    @judge_failsafe
    async def verify(config: Any, request: Any) -> None:
        raise JudgeError("gone")

    body = BaseVerifyRequest(**ROW)
    answer = asyncio.run(verify(BaseResourcesServerConfig(), body))

    assert orjson.loads(answer.body)["responses_create_params"]["input"] == "q"


def test_judge_failsafe_without_a_verify_request_is_a_runtime_error() -> None:
    @judge_failsafe
    async def verify(number: int) -> None:
        raise JudgeError("gone")

    with pytest.raises(RuntimeError) as raised:
        asyncio.run(verify(3))

    assert isinstance(raised.value.__cause__, JudgeError)


def test_judge_failsafe_leaves_other_errors_alone() -> None:
    @judge_failsafe
    async def verify(body: BaseVerifyRequest) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        asyncio.run(verify(BaseVerifyRequest(**ROW)))


ASKING = """
class Asking(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        await call_judge(self.server_client, "judge", input="same?")
"""


def test_a_judge_error_in_a_fleet_is_a_typed_failure_and_no_row(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        with pytest.raises(JudgeFailure, match="the endpoint is gone") as raised:
            await fleet.client.peer("asking").call("/verify", FLEET_ROW, VerifyResponse)
        assert raised.value.evidence.judge_question == "same?"

    apps = {"resources_servers/asking": ASKING, "responses_api_models/judge": JUDGE}
    run(tmp_path, apps, check)


def test_a_row_that_judge_failsafe_answered_is_never_scored(tmp_path: Path) -> None:
    rows, failures = collected(tmp_path, how="judge", failing=99)

    assert rows == []
    assert {row["_ng_failure_class"] for row in failures} == {"judge_error"}
    assert all("the judge is gone" in str(row) for row in failures)


CARELESS = """
class Careless(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        for question in ("first", "second"):
            params = NeMoGymResponseCreateParamsNonStreaming(input=question)
            reply = await self.server_client.post("judge", "/v1/responses", json=params)
        NeMoGymResponse.model_validate(await reply.json())
        raise KeyError("verdict")
"""
"""An environment that does not look at the status of its judge's answer."""

PLAIN_REFUSALS = """
from starlette.responses import JSONResponse

class Judge(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        return JSONResponse({"detail": "no such model"}, 404)
"""

CAREFUL = CARELESS.replace(
    "        NeMoGymResponse.model_validate(await reply.json())\n",
    "            if reply.status != 200:\n                continue\n",
)
"""An environment that looks at the status of its judge's answers, and has a bug after it."""

ONE_REFUSAL = """
from starlette.responses import JSONResponse

class Judge(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        if body.input == "first":
            return JSONResponse({"detail": "busy"}, 503)
        return NeMoGymResponse(id="r", created_at=0, model="m", object="response", output=[],
                               parallel_tool_calls=True, tool_choice="auto", tools=[])
"""


def failure_of_careless(root: Path, judge: str, environment: str = CARELESS) -> Any:
    """The failure of a verification whose judge has this source."""
    failures: list[BaseException] = []

    async def check(fleet: Fleet) -> None:
        with pytest.raises((JudgeFailure, VerifierError)) as raised:
            await fleet.client.peer("careless").call("/verify", FLEET_ROW, VerifyResponse)
        failures.append(raised.value)

    run(
        root,
        {"resources_servers/careless": environment, "responses_api_models/judge": judge},
        check,
    )
    return failures[0]


@pytest.mark.parametrize(
    ("judge", "text"),
    [(JUDGE, "RuntimeError: the endpoint is gone"), (PLAIN_REFUSALS, "judge answered 404: ")],
    ids=["an error of the fleet", "a plain answer"],
)
def test_a_judges_error_that_the_environment_reads_as_an_answer_is_the_judges_failure(
    tmp_path: Path, judge: str, text: str
) -> None:
    failure = failure_of_careless(tmp_path, judge)

    assert isinstance(failure, JudgeUnavailable)
    assert failure.layer is Layer.MODEL
    assert text in failure.message
    assert "careless/verify then failed on this answer: ValidationError of " in failure.message
    assert "Field required" not in failure.message
    assert failure.evidence.hops[-1].server == "judge"
    assert "app.py" in failure.evidence.traceback


def test_an_error_after_the_judges_last_answer_was_good_is_the_verifiers(tmp_path: Path) -> None:
    failure = failure_of_careless(tmp_path, ONE_REFUSAL)

    assert isinstance(failure, VerifierError)
    assert failure.message == "careless/verify raised KeyError: 'verdict'"


def test_an_error_after_a_judges_refusal_that_was_handled_is_the_verifiers(tmp_path: Path) -> None:
    failure = failure_of_careless(tmp_path, PLAIN_REFUSALS, CAREFUL)

    assert isinstance(failure, VerifierError)
    assert failure.message == "careless/verify raised KeyError: 'verdict'"
