"""Rewards of hosted environments that ask a judge, verified again from what their rows hold."""

from pathlib import Path
from typing import Any

import pytest
from field_project import CONFIGS, FIELD
from hosted_apps import JUDGE, RESPONSE, run

from palestra.cli.reverifying import reverify
from palestra.errors import JudgeFailure
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse, encode_json, read_jsonl
from palestra.settings import ReverifyArgs

JUDGED = """
from pydantic import BaseModel, ConfigDict

class Row(BaseRunRequest):
    model_config = ConfigDict(extra="allow")
    question: str

class Body_(Row, BaseVerifyRequest): pass

class Evaluation(BaseModel):
    responses_create_params: NeMoGymResponseCreateParamsNonStreaming
    response: NeMoGymResponse

class Verdict(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")
    judge_evaluations: list[Evaluation]
    label: str

class Judged(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, body: Body_) -> Verdict:
        params = NeMoGymResponseCreateParamsNonStreaming(
            input=[NeMoGymEasyInputMessage(role="user", content=body.question)], temperature=0.0)
        if body.question.startswith("call"):
            found = await call_judge(self.server_client, "judge", params)
        else:
            reply = await self.server_client.post(
                server_name="judge", url_path="/v1/responses", json=params)
            await raise_for_status(reply)
            assert reply.ok and reply.status == 200
            found = NeMoGymResponse.model_validate(await get_response_json(reply))
        label = found.output[-1].content[-1].text
        evaluation = Evaluation(responses_create_params=params, response=found)
        return Verdict(**body.model_dump(), reward=float(label == "yes"), label=label,
                       judge_evaluations=[evaluation])
"""


def said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [part]}
    return {**RESPONSE, "output": [{**message, "status": "completed"}]}


def recorded(question: str, answer: str, **more: Any) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": question, "type": "message"}], "temperature": 0}
    return {
        "responses_create_params": {"input": "q"},
        "response": said("42"),
        "question": question,
        "source": "kept",
        "label": "as it was recorded",
        "judge_evaluations": [{"responses_create_params": asked, "response": said(answer)}],
        **more,
    }


AGAIN = {"_ng_judge_replay": True}
ALONE = {"resources_servers/judged": JUDGED}
WITH_JUDGE = {**ALONE, "responses_api_models/judge": JUDGE}


@pytest.mark.parametrize("question", ["post: same?", "call: same?"])
@pytest.mark.parametrize("apps", [ALONE, WITH_JUDGE])
def test_a_recorded_verdict_is_given_again_without_the_judge(
    tmp_path: Path, apps: dict[str, str], question: str
) -> None:
    async def check(fleet: Fleet) -> None:
        for answer, reward in (("yes", 1.0), ("no", 0.0)):
            row = recorded(question, answer, **AGAIN)
            found = await fleet.client.peer("judged").call("/verify", row, VerifyResponse)
            assert found.reward == reward
            assert found.model_extra is not None
            assert found.model_extra["label"] == answer
            assert found.model_extra["source"] == "kept"
            [evaluation] = found.model_extra["judge_evaluations"]
            assert evaluation["response"]["output"][0]["content"][0]["text"] == answer

    run(tmp_path, apps, check)


@pytest.mark.parametrize("question", ["post: same?", "call: same?"])
def test_a_question_that_was_never_asked_gets_no_reward(tmp_path: Path, question: str) -> None:
    async def check(fleet: Fleet) -> None:
        row = recorded(question, "yes", **AGAIN) | {"question": f"{question} else"}
        with pytest.raises(JudgeFailure, match="no answer of the judge") as refused:
            await fleet.client.peer("judged").call("/verify", row, VerifyResponse)
        assert "--judge" in refused.value.hint

    run(tmp_path, ALONE, check)


def test_a_row_cannot_bring_its_own_verdict(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        row = recorded("post: same?", "yes")
        del row["label"]
        for replay in ({}, {"_ng_judge_replay": "true"}):
            with pytest.raises(JudgeFailure, match="the endpoint is gone"):
                await fleet.client.peer("judged").call("/verify", row | replay, VerifyResponse)

    run(tmp_path, WITH_JUDGE, check)


WILLING = """
class Judge(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        item = NeMoGymResponseOutputMessage(content=[NeMoGymResponseOutputText(text="no")])
        return NeMoGymResponse(id="r", created_at=0, model="judge", output=[item])
"""


def test_a_stored_row_may_be_put_to_the_judge_anew(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        row = recorded("post: same?", "yes")
        found = await fleet.client.peer("judged").call("/verify", row, VerifyResponse)
        assert found.reward == 0.0
        assert found.model_extra is not None
        assert found.model_extra["label"] == "no"

    run(tmp_path, {**ALONE, "responses_api_models/judge": WILLING}, check)


def test_a_collected_row_is_verified_again_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = "Q: 2+2?\nA: 4\nB: four"
    row = recorded(prompt, "so [[A=B]]", expected_answer="4", reward=0.0)
    row |= {"question": "2+2?", "response": said("four"), "agent_ref": {"name": "judged_agent"}}
    rollouts, output = tmp_path / "rollouts.jsonl", tmp_path / "again.jsonl"
    rollouts.write_bytes(encode_json(row) + b"\n")
    monkeypatch.chdir(FIELD)

    ended = reverify(
        ReverifyArgs(rollouts=rollouts, output=output), [f"+config_paths=[{','.join(CONFIGS)}]"]
    )

    assert ended == 0
    [again] = [line.row for line in read_jsonl(output)]
    assert (again["reward"], again["previous_reward"]) == (1.0, 0.0)
    assert again["judge_evaluations"][0]["verdict_label"] == "[[A=B]]"
