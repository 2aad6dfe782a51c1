from typing import Any, List, Optional

from pydantic import BaseModel, ConfigDict

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.config_types import ModelServerRef
from nemo_gym.openai_utils import (
    NeMoGymEasyInputMessage,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.server_utils import get_response_json, raise_for_status


class JudgedAnswersResourcesServerConfig(BaseResourcesServerConfig):
    judge_model_server: ModelServerRef
    judge_responses_create_params: NeMoGymResponseCreateParamsNonStreaming
    judge_system_message: Optional[str] = None
    equal_label: str = "[[A=B]]"


class JudgedAnswersRunRequest(BaseRunRequest):
    model_config = ConfigDict(extra="allow")

    question: str
    expected_answer: str


class JudgedAnswersVerifyRequest(JudgedAnswersRunRequest, BaseVerifyRequest):
    pass


class JudgeEvaluation(BaseModel):
    responses_create_params: NeMoGymResponseCreateParamsNonStreaming
    response: NeMoGymResponse
    verdict_label: Optional[str] = None


class JudgedAnswersVerifyResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")

    judge_evaluations: List[JudgeEvaluation]


class JudgedAnswersResourcesServer(SimpleResourcesServer):
    config: JudgedAnswersResourcesServerConfig

    def model_post_init(self, context: Any) -> None:
        self._calls = 0

    async def verify(self, body: JudgedAnswersVerifyRequest) -> JudgedAnswersVerifyResponse:
        evaluation = await self._ask(body.question, body.expected_answer, body.response.output_text)
        payload = body.model_dump()
        return JudgedAnswersVerifyResponse(
            **payload,
            reward=1.0 if evaluation.verdict_label == self.config.equal_label else 0.0,
            judge_evaluations=[evaluation],
        )

    async def _ask(self, question: str, expected: str, generated: str) -> JudgeEvaluation:
        self._calls += 1
        params = self.config.judge_responses_create_params.model_copy(deep=True)
        messages: List[NeMoGymEasyInputMessage] = []
        if self.config.judge_system_message:
            messages.append(
                NeMoGymEasyInputMessage(role="system", content=self.config.judge_system_message)
            )
        prompt = f"Q: {question}\nA: {expected}\nB: {generated}"
        messages.append(NeMoGymEasyInputMessage(role="user", content=prompt))
        params.input = messages
        response = await self.server_client.post(
            server_name=self.config.judge_model_server.name,
            url_path="/v1/responses",
            json=params,
        )
        await raise_for_status(response)
        judge_response = NeMoGymResponse.model_validate(await get_response_json(response))
        text = judge_response.output[-1].content[-1].text
        label = self.config.equal_label if self.config.equal_label in text else None
        return JudgeEvaluation(
            responses_create_params=params, response=judge_response, verdict_label=label
        )


if __name__ == "__main__":
    JudgedAnswersResourcesServer.run_webserver()
