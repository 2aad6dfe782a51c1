"""Environments that catch the error of their judge: the rollout fails, and gets no reward."""

from pathlib import Path
from typing import Any

import pytest
from hosted_apps import JUDGE, ROW, run

from palestra.errors import CallError, DeadlineExceeded, JudgeFailure, JudgeUnavailable
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse

CATCHING = """
class Catching(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        verdict = ""
        for question in QUESTIONS:
            params = NeMoGymResponseCreateParamsNonStreaming(input=question)
            try:
                verdict = str(await self.ask(params))
            except Exception:
                pass
        return BaseVerifyResponse(**body.model_dump(), reward=float("yes" in verdict))

    async def ask(self, params):
        reply = await self.server_client.post("judge", "/v1/responses", json=params)
        return NeMoGymResponse.model_validate(await reply.json())
"""
ASKING_ONCE = f"QUESTIONS = ['same?']\n{CATCHING}"
BY_CALL_JUDGE = f"""{ASKING_ONCE}
    async def ask(self, params):
        return await call_judge(self.server_client, "judge", params)
"""
BY_STATUS = f"""{ASKING_ONCE}
    async def ask(self, params):
        reply = await self.server_client.post("judge", "/v1/responses", json=params)
        return await reply.json() if reply.status == 200 else ""
"""
ON_A_THREAD = ASKING_ONCE.replace("async def verify", "def verify").replace(
    "await self.ask(params)", "asyncio.run(self.ask(params))"
)
IN_HASTE = f"""{ASKING_ONCE}
    async def ask(self, params):
        reply = await self.server_client.post(
            "judge", "/v1/responses", json=params, timeout=0.05)
        return await reply.json()
"""
ANSWER = """
        item = NeMoGymResponseOutputMessage(content=[NeMoGymResponseOutputText(text="yes")])
        return NeMoGymResponse(id="r", created_at=0, model="judge", output=[item])
"""
FAILING_ONCE = f"""
class Judge(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        if not hasattr(Judge, "was_asked"):
            Judge.was_asked = True
            raise RuntimeError("the endpoint is gone")
{ANSWER}"""
SLOW = f"""
import asyncio
class Judge(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        await asyncio.sleep(5)
{ANSWER}"""
NO_RESPONSE = """
from starlette.responses import JSONResponse
class Judge(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        return JSONResponse({"text": "yes"})
"""


def outcome(
    root: Path, environment: str, judge: str, row: dict[str, Any] = ROW, **top_level: Any
) -> VerifyResponse | CallError:
    """The verify response for a row, or the error in its place."""
    outcomes: list[VerifyResponse | CallError] = []

    async def check(fleet: Fleet) -> None:
        try:
            outcomes.append(
                await fleet.client.peer("catching").call("/verify", row, VerifyResponse)
            )
        except CallError as error:
            outcomes.append(error)

    apps = {"resources_servers/catching": f"import asyncio\n{environment}"}
    if judge:
        apps["responses_api_models/judge"] = judge
    run(root, apps, check, top_level=top_level)
    return outcomes[0]


@pytest.mark.parametrize(
    "environment",
    [ASKING_ONCE, BY_CALL_JUDGE, BY_STATUS, ON_A_THREAD],
    ids=["post", "call_judge", "by the status", "on a thread"],
)
def test_a_caught_error_of_the_judge_is_the_judges_failure(
    tmp_path: Path, environment: str
) -> None:
    failure = outcome(tmp_path, environment, JUDGE)

    assert isinstance(failure, JudgeUnavailable)
    assert "RuntimeError: the endpoint is gone" in failure.message
    assert "catching/verify went on without this answer" in failure.message
    assert failure.evidence.judge_question == "same?"
    assert "judge" in [hop.server for hop in failure.evidence.hops]


@pytest.mark.slow
def test_a_caught_error_of_the_judge_in_a_process_of_its_own_is_the_judges_failure(
    tmp_path: Path,
) -> None:
    failure = outcome(tmp_path, ASKING_ONCE, JUDGE, default_placement="process")

    assert isinstance(failure, JudgeUnavailable)
    assert failure.evidence.judge_question == "same?"


def test_a_question_that_is_asked_again_with_success_gives_a_reward(tmp_path: Path) -> None:
    asking_again = ASKING_ONCE.replace("['same?']", "['same?', 'same?']")

    scored = outcome(tmp_path, asking_again, FAILING_ONCE)

    assert isinstance(scored, VerifyResponse)
    assert scored.reward == 1.0


def test_an_answer_to_another_question_does_not_settle_the_first(tmp_path: Path) -> None:
    asking_two = ASKING_ONCE.replace("['same?']", "['same?', 'polite?']")

    failure = outcome(tmp_path, asking_two, FAILING_ONCE)

    assert isinstance(failure, JudgeFailure)
    assert failure.evidence.judge_question == "same?"


def test_a_caught_timeout_of_a_call_is_a_failure(tmp_path: Path) -> None:
    failure = outcome(tmp_path, IN_HASTE, SLOW)

    assert isinstance(failure, DeadlineExceeded)
    assert "judge/v1/responses gave no answer within 0.05 s" in failure.message


def test_a_caught_reply_that_is_no_response_is_the_judges_failure(tmp_path: Path) -> None:
    failure = outcome(tmp_path, BY_CALL_JUDGE, NO_RESPONSE)

    assert isinstance(failure, JudgeFailure)
    assert "the judge judge answered what is not a response" in failure.message


def test_a_row_that_names_its_own_failure_stays_as_it_is(tmp_path: Path) -> None:
    marked = ASKING_ONCE.replace(
        "return BaseVerifyResponse(**body.model_dump(), reward",
        "from starlette.responses import JSONResponse\n"
        "        return JSONResponse({**body.model_dump(mode='json'), 'reward': 0.0, "
        "'_ng_failure_class': 'mine'})\n"
        "        return BaseVerifyResponse(**body.model_dump(), reward",
    )

    answer = outcome(tmp_path, marked, JUDGE)

    assert isinstance(answer, VerifyResponse)
    assert answer.model_extra is not None
    assert answer.model_extra["_ng_failure_class"] == "mine"


@pytest.mark.parametrize("environment", [ASKING_ONCE, BY_CALL_JUDGE], ids=["post", "call_judge"])
def test_a_stored_row_without_the_recorded_answer_gets_no_reward(
    tmp_path: Path, environment: str
) -> None:
    row = {**ROW, "judge_evaluations": [], "_ng_judge_replay": True}

    failure = outcome(tmp_path, environment, "", row)

    assert isinstance(failure, JudgeFailure)
    assert "the row holds no answer of the judge judge to this question" in failure.message


def test_a_verification_without_a_judge_is_scored(tmp_path: Path) -> None:
    scored = outcome(tmp_path, f"QUESTIONS = []\n{CATCHING}", JUDGE)

    assert isinstance(scored, VerifyResponse)
    assert scored.reward == 0.0


ROUTING = """
class Router(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        reply = await self.server_client.post("first", "/v1/responses", json={"input": "routed"})
        assert reply.status == 500
        item = NeMoGymResponseOutputMessage(content=[NeMoGymResponseOutputText(text="yes")])
        return NeMoGymResponse(id="r", created_at=0, model="judge", output=[item])
"""


def test_a_failure_that_the_judges_own_server_handles_is_none_of_the_judge(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        scored = await fleet.client.peer("catching").call("/verify", ROW, VerifyResponse)
        assert scored.reward == 1.0

    apps = {
        "resources_servers/catching": ASKING_ONCE,
        "responses_api_models/judge": ROUTING,
        "responses_api_models/first": JUDGE,
    }
    run(tmp_path, apps, check)
