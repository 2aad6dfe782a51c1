import asyncio
from typing import Any

import pytest

from palestra.errors import ModelNotServed, WrongSetting
from palestra.responses_api_models.vllm_model.capabilities import (
    FOR_ALL,
    FOR_TOKEN_IDS,
    Capabilities,
    Question,
    TokenIds,
)
from palestra.responses_api_models.vllm_model.probing import ProbeReply, probe

MODELS = {"data": [{"id": "smollm2", "max_model_len": 2048}]}
SPELT = {"choices": [{"logprobs": {"content": [{"token": "token_id:44", "logprob": -1.0}]}}]}
IGNORED = {"choices": [{"logprobs": {"content": [{"token": "Y", "id": 44, "logprob": -1.0}]}}]}
GIVEN = {"prompt_token_ids": [1, 2], "choices": [{"token_ids": [44]}]}
LLAMA_CPP = {
    "/v1/models": {"data": [{"id": "smollm2", "meta": {"n_ctx_train": 8192}}]},
    "/props": {"build_info": "b6400"},
    # What a real one answers to messages: 200, and no tokens.
    "/tokenize": {"tokens": []},
    "/v1/chat/completions": IGNORED,
}


def found_at(answers: dict[str, Any], *, want: bool = True) -> Capabilities:
    """What is known after asking; an answer that is a number is a status."""
    asked: list[str] = []

    async def ask(_method: str, url: str, body: dict[str, Any] | None) -> ProbeReply:
        path = url.removeprefix("http://fake")
        asked.append(path)
        answer = answers.get(path, 404)
        if callable(answer):
            answer = answer(body)
        return ProbeReply(answer, said="no") if isinstance(answer, int) else ProbeReply(200, answer)

    nothing = Capabilities.unasked("http://fake/v1")
    questions = FOR_ALL | FOR_TOKEN_IDS if want else FOR_ALL
    found = asyncio.run(probe(ask, nothing, "smollm2", questions))
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


def test_what_an_endpoint_lacks_is_only_named_where_token_ids_are_wanted() -> None:
    answers = {"/v1/models": MODELS, "/v1/chat/completions": IGNORED}

    assert found_at(answers, want=False).line() == "2048 tokens of context"
    assert found_at({}, want=False).line() == ""
    assert "an unknown server" in found_at(answers).line()


@pytest.mark.parametrize("status", [301, 401, 403, 408, 418, 429, 500, 502, 503, 504])
@pytest.mark.parametrize(
    ("path", "open_"),
    [
        ("/tokenize", {Question.TOKENIZE}),
        ("/v1/chat/completions", {Question.TOKEN_IDS}),
        ("/v1/chat/completions/render", {Question.IDS_IN}),
        ("/version", {Question.SERVER}),
    ],
)
def test_a_refusal_that_is_no_evidence_leaves_open_what_was_asked(
    path: str, open_: set[Question], status: int
) -> None:
    answers = {"/v1/models": MODELS, "/tokenize": chat_ids, "/v1/chat/completions": GIVEN}

    found = found_at({**answers, path: status})

    assert set(found.unanswered) == open_
    assert all(str(status) in left.why for left in found.unanswered.values())
    found.require_token_ids("policy_model")


@pytest.mark.parametrize("status", [400, 405, 422, 501])
def test_a_refusal_that_is_evidence_is_told_in_the_endpoints_words(status: int) -> None:
    found = found_at({"/tokenize": chat_ids, "/v1/chat/completions": status})

    assert not found.unanswered
    with pytest.raises(WrongSetting, match=f"returns no token ids: it answered {status}: no"):
        found.require_token_ids("policy_model")


def test_a_model_that_is_not_there_is_told_as_that() -> None:
    with pytest.raises(ModelNotServed, match="'smollm2'"):
        found_at({"/v1/models": MODELS})


def test_spelt_ids_without_knowing_about_tokenize_decide_nothing() -> None:
    found = found_at({"/tokenize": 503, "/v1/chat/completions": SPELT})

    assert set(found.unanswered) == {Question.TOKENIZE, Question.TOKEN_IDS}


def test_a_gateway_that_lets_through_v1_alone_takes_no_ids() -> None:
    """Rendering is below `/v1`, and generating is not."""
    rendered = {"token_ids": [1, 2], "sampling_params": {}}
    answers = {"/v1/chat/completions": GIVEN, "/v1/chat/completions/render": rendered}

    found = found_at(answers)

    assert not found.unanswered
    assert not found.splices
    assert "later prompts: sent as text" in found.line()
