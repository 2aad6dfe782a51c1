"""The answers that docs/topics/token-ids.md asks of a trainer's own endpoint give its token ids."""

import json
from pathlib import Path
from typing import Any

import pytest
from token_fakes import FakeVLLM, token_model

from palestra.responses_api_models.openai_model.app import OpenAIModel, OpenAIModelConfig
from palestra.responses_api_models.vllm_model.capabilities import TokenIds
from palestra.schema import ResponseCreateParams, TurnTokens, tokens_on
from palestra.server import ModelServer, Session
from palestra.transport import ServerClient

pytestmark = pytest.mark.anyio
DOCUMENT = Path(__file__).resolve().parents[3] / "docs/topics/token-ids.md"
TOKENS = TurnTokens([11, 12, 13], [21, 22], [-0.25, -0.5])


def shown(number: int) -> dict[str, Any]:
    """An answer that the document shows."""
    texts = DOCUMENT.read_text().split("```json\n")[1:]
    answer: dict[str, Any] = json.loads(texts[number].partition("```")[0])
    return answer


def chat_endpoint(answer: dict[str, Any]) -> FakeVLLM:
    return FakeVLLM([], takes_ids=False, saying={"/v1/chat/completions": answer})


def responses_model(answer: dict[str, Any]) -> OpenAIModel:
    config = OpenAIModelConfig(
        name="policy_model", openai_base_url="http://fake/v1", openai_model="my-model"
    )
    fake = FakeVLLM([], saying={"/v1/responses": answer})
    return OpenAIModel(config=config, server_client=ServerClient({}, fake))


async def turn_of(model: ModelServer) -> tuple[str, TurnTokens | None]:
    """The text of a turn, and its tokens as a client takes them."""
    params = ResponseCreateParams.model_validate({"input": "Where?"})
    response = await model.responses(params, Session("s"))
    return response.output_text, tokens_on(response.output[-1])


async def test_the_chat_completion_of_the_document_has_token_ids() -> None:
    model = token_model(chat_endpoint(shown(0)))

    assert TokenIds.WITH_ANSWER.value in await model.check()
    assert await turn_of(model) == ("Rome", TOKENS)


async def test_ids_may_stand_in_the_log_probs_instead() -> None:
    answer = shown(0)
    (choice,) = answer["choices"]
    for entry, token in zip(choice["logprobs"]["content"], choice.pop("token_ids"), strict=True):
        entry["token"] = f"token_id:{token}"

    assert await turn_of(token_model(chat_endpoint(answer))) == ("Rome", TOKENS)


async def test_the_response_of_the_document_has_token_ids() -> None:
    assert await turn_of(responses_model(shown(1))) == ("Rome", TOKENS)
