"""What an endpoint says with status 200 that is no answer, where token ids are wanted."""

import asyncio
from typing import Any

import orjson
import pytest
from token_fakes import FakeVLLM, token_model

from palestra.errors import CallError, InfraError, ModelError, PromptTooLong, WrongSetting
from palestra.responses_api_models.vllm_model.app import VLLMModel
from palestra.responses_api_models.vllm_model.capabilities import Capabilities, TokenIds
from palestra.responses_api_models.vllm_model.token_ids import tokens_on
from palestra.schema import Response, ResponseCreateParams
from palestra.server import Session

CHAT, KEY = "/v1/chat/completions", "sk-a-secret-key"
TOO_LONG = {"message": "This model's maximum context length is 2048 tokens, not 3000", "code": 400}
GONE = {"message": "its provider is gone", "code": 503}


def model_saying(answer: Any, at: str = CHAT) -> VLLMModel:
    """A model server whose endpoint says this with status 200."""
    return token_model(FakeVLLM(["Cold."], saying={at: answer}), api_key=KEY)


def known_to_return_ids(model: VLLMModel) -> VLLMModel:
    model._known_capabilities.note(
        Capabilities("http://fake/v1", token_ids=TokenIds.WITH_ANSWER, tokenize=True)
    )
    return model


def first_turn(answer: Any) -> Response:
    model = known_to_return_ids(model_saying(answer))
    return asyncio.run(model.responses(ResponseCreateParams(input="Hi"), Session("s")))


def completion(**changes: Any) -> dict[str, Any]:
    entry = {"token": "token_id:7", "logprob": -0.5}
    choice = {"message": {"content": "Hi"}, "token_ids": [7], "logprobs": {"content": [entry]}}
    choice["finish_reason"] = changes.pop("finish_reason", "stop")
    return {"choices": [choice], "prompt_token_ids": [1, 2], **changes}


def test_nulls_of_an_endpoint_that_does_not_know_are_taken_as_absent() -> None:
    plain = completion(id=None, model=None, created=None, usage={"prompt_tokens": None})

    tokens = tokens_on(first_turn(plain).output[-1])

    assert tokens is not None
    assert (tokens.prompt, tokens.generation) == ([1, 2], [7])


def test_an_error_beside_empty_choices_is_quoted() -> None:
    with pytest.raises(ModelError, match="answered 503: its provider is gone") as failed:
        first_turn({"choices": [], "error": GONE})

    assert failed.value.evidence.hops[0].status == 503


def test_a_first_prompt_that_does_not_fit_is_the_rows_fault() -> None:
    with pytest.raises(PromptTooLong) as failed:
        first_turn({"error": TOO_LONG})

    assert not failed.value.retriable


def test_an_answer_that_was_broken_off_is_said_to_be() -> None:
    with pytest.raises(ModelError, match="stopped in the middle of its answer"):
        first_turn({"choices": [{"message": {"content": ""}, "finish_reason": "error"}]})


@pytest.mark.parametrize(
    "answer", [f"a page that quotes {KEY}", {"choices": [{"message": {}, "logprobs": KEY}]}]
)
def test_a_body_that_is_quoted_has_its_key_masked(answer: Any) -> None:
    with pytest.raises(CallError) as failed:
        first_turn(answer)

    [hop] = failed.value.evidence.hops
    assert KEY not in f"{failed.value}{hop}"
    assert orjson.dumps(answer).decode()[:4] == hop.body[:4]


@pytest.mark.parametrize(
    "answer",
    ["a page", {"error": GONE}, {"choices": [], "error": GONE}, completion(finish_reason="abort")],
)
def test_a_failure_says_nothing_of_whether_an_endpoint_returns_ids(answer: Any) -> None:
    with pytest.raises(InfraError, match="not known yet whether it returns token ids"):
        asyncio.run(model_saying(answer).check())


def test_a_failure_says_nothing_of_whether_an_endpoint_takes_ids() -> None:
    said = asyncio.run(model_saying({"error": GONE}, at=f"{CHAT}/render").check())

    assert "not known yet whether it takes token ids" in said


def test_an_endpoint_that_refuses_the_parameter_returns_no_ids() -> None:
    refusal = {"error": {"message": "unknown parameter return_token_ids", "code": 400}}

    with pytest.raises(WrongSetting, match="unknown parameter"):
        asyncio.run(model_saying(refusal).check())
