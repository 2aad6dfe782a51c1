import asyncio
from typing import Any

import pytest

from palestra.errors import WrongSetting
from palestra.responses_api_models.vllm_model.capabilities import Capabilities, TokenIds, probe

MODELS = {"data": [{"id": "smollm2", "max_model_len": 2048}]}
SPELT = {"choices": [{"logprobs": {"content": [{"token": "token_id:44", "logprob": -1.0}]}}]}
IGNORED = {"choices": [{"logprobs": {"content": [{"token": "Y", "id": 44, "logprob": -1.0}]}}]}
LLAMA_CPP = {
    "/v1/models": {"data": [{"id": "smollm2", "meta": {"n_ctx_train": 8192}}]},
    "/props": {"build_info": "b6400"},
    # What a real one answers to messages: 200, and no tokens.
    "/tokenize": {"tokens": []},
    "/v1/chat/completions": IGNORED,
}


def found_at(answers: dict[str, Any], *, want: bool = True) -> Capabilities:
    asked: list[str] = []

    async def ask(_method: str, url: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        path = url.removeprefix("http://fake")
        asked.append(path)
        answer = answers.get(path)
        if callable(answer):
            answer = answer(body)
        return (404, {"detail": "Not Found"}) if answer is None else (200, answer)

    found = asyncio.run(probe(ask, "http://fake/v1", "smollm2", want_token_ids=want))
    assert want or "/v1/chat/completions" not in asked
    return found


def chat_ids(body: Any) -> Any:
    return {"tokens": [1, 30 + len(body["messages"][-1]["content"]), 2, 198]}


def test_a_vllm_shows_version_context_and_what_closes_a_turn() -> None:
    answers = {"/v1/models": MODELS, "/version": {"version": "0.9.1"}, "/tokenize": chat_ids}

    found = found_at(answers, want=False)

    assert (found.server, found.max_model_len, found.closing_token) == ("vLLM 0.9.1", 2048, 2)
    assert found.token_ids is TokenIds.NOT_ASKED


def test_an_older_vllm_has_its_prompts_tokenized_beside_the_answer() -> None:
    answers = {"/v1/models": MODELS, "/tokenize": chat_ids, "/v1/chat/completions": SPELT}

    assert found_at(answers).token_ids is TokenIds.BY_TOKENIZE


def test_llama_cpps_empty_answer_to_messages_is_no_tokenization() -> None:
    found = found_at(LLAMA_CPP)

    assert not found.tokenize
    assert found.server == "llama.cpp b6400"
    with pytest.raises(WrongSetting, match="its /tokenize does not render chats"):
        found.require_token_ids("policy_model")


def test_an_endpoint_of_which_nothing_is_known_has_a_line_too() -> None:
    assert "an unknown server" in found_at({}, want=False).line()
