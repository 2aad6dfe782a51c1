from typing import Optional

from fastapi import FastAPI

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.reward_profile import compute_pass_majority_metrics, highest_k_metrics


class PlainMatchResourcesServerConfig(BaseResourcesServerConfig):
    ignore_case: bool = True


class PlainMatchRunRequest(BaseRunRequest):
    expected_answer: str


class PlainMatchVerifyRequest(PlainMatchRunRequest, BaseVerifyRequest):
    pass


class PlainMatchVerifyResponse(BaseVerifyResponse):
    expected_answer: str
    extracted_answer: Optional[str] = None


class PlainMatchResourcesServer(SimpleResourcesServer):
    config: PlainMatchResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        return app

    async def verify(self, body: PlainMatchVerifyRequest) -> PlainMatchVerifyResponse:
        answer = None
        for output in reversed(body.response.output):
            if output.type == "message" and output.role == "assistant":
                answer = "".join(c.text for c in output.content if c.type == "output_text").strip()
                break
        expected = body.expected_answer
        same = answer == expected
        if self.config.ignore_case and answer is not None:
            same = answer.lower() == expected.lower()
        return PlainMatchVerifyResponse(
            **body.model_dump(), reward=1.0 if same else 0.0, extracted_answer=answer
        )

    def compute_metrics(self, tasks):
        return compute_pass_majority_metrics(
            tasks,
            score_fn=lambda r: {"accuracy": r["reward"]},
            answer_key="extracted_answer",
        )[0]

    def get_key_metrics(self, agent_metrics):
        return highest_k_metrics(agent_metrics, "pass@1[avg-of-{k}]", score_names=["accuracy"])


if __name__ == "__main__":
    PlainMatchResourcesServer.run_webserver()
