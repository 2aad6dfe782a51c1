"""What is asked of an endpoint for token ids, and what of its answers counts as one."""

import asyncio
from typing import Any

import pytest
from test_vllm_turns import params
from token_fakes import END, FakeVLLM, detokenize, sampled, token_model

from palestra.errors import ConfigError, ModelError, RowError
from palestra.responses_api_models.vllm_model.token_ids import (
    MissingTokens,
    TokenChoice,
    generated,
    tokens_on,
)
from palestra.responses_api_models.vllm_model.wire import to_tokenize
from palestra.schema import ChatCreateParams, ChatMessage, Response, UpstreamMessage
from palestra.server import Session


def turn(http: FakeVLLM, settings: dict[str, Any], **asked: Any) -> Response:
    model = token_model(http, **settings)
    return asyncio.run(model.responses(params(**asked), Session("s")))


# Several answers


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [({"n": 2}, "/n"), ({"metadata": {"extra_body": '{"n": 2}'}}, "/metadata/extra_body")],
)
def test_a_row_that_asks_for_several_answers_is_refused(
    asked: dict[str, Any], pointer: str
) -> None:
    http = FakeVLLM(["Cold."])

    with pytest.raises(RowError, match="an `n` of 1") as refused:
        turn(http, {}, **asked)

    assert refused.value.evidence.problems[0].pointer == pointer
    assert http.answers == ["Cold."]


def test_a_chat_of_several_answers_is_refused_too() -> None:
    chat = ChatCreateParams(messages=[ChatMessage(role="user", content="Hi.")], n=3)
    model = token_model(FakeVLLM(["Cold."]))

    with pytest.raises(RowError, match="/n is 3"):
        asyncio.run(model.chat_completions(chat, Session("s")))


def test_several_answers_as_a_setting_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(ConfigError, match=r"extra_body\.n is 2"):
        token_model(FakeVLLM([]), extra_body={"n": 2})


def test_a_row_may_say_that_it_wants_one_answer() -> None:
    assert turn(FakeVLLM(["Cold."]), {}, n=1).output_text == "Cold."


# The prompt's ids by /tokenize


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"add_generation_prompt": False, "continue_final_message": True},
        {"documents": [{"text": "It is winter."}]},
    ],
)
def test_the_prompts_ids_are_those_that_the_completion_read(asked: dict[str, Any]) -> None:
    http = FakeVLLM(["Cold."], only_spells_ids=True)

    answer = turn(http, {}, **asked)

    tokens = tokens_on(answer.output[-1])
    assert tokens is not None
    begun = asked.get("add_generation_prompt", True)
    assert detokenize(tokens.prompt).endswith("assistant\n") is begun
    assert ("winter" in detokenize(tokens.prompt)) is ("documents" in asked)


def test_tokenize_is_told_all_that_decides_about_a_prompt() -> None:
    kwargs = {"enable_thinking": False}
    told = {"tool_choice": "none", "add_generation_prompt": False, "documents": [{"text": "x"}]}

    body = to_tokenize({**told, "chat_template_kwargs": kwargs, "messages": [], "temperature": 1})

    templates = {**kwargs, "documents": [{"text": "x"}]}
    assert body == {**told, "chat_template_kwargs": templates, "messages": []}


def test_a_prompt_that_tokenize_makes_otherwise_is_a_failure() -> None:
    http = FakeVLLM(["Cold."], only_spells_ids=True, reads_more=7)

    with pytest.raises(ModelError, match="its /tokenize returns") as failed:
        turn(http, {})

    assert not failed.value.retriable


# Ids that are spelt


def test_texts_that_are_numbers_are_no_ids() -> None:
    """The endpoint gives ids of its own, and texts in its log probs: `4`, `2` are texts here."""
    http = FakeVLLM(["42"], texts_as_tokens=True, finish_reason="length")

    tokens = tokens_on(turn(http, {}).output[-1])

    assert tokens is not None
    assert tokens.generation == sampled("42")


def test_ids_are_read_from_log_probs_that_spell_them() -> None:
    tokens = tokens_on(turn(FakeVLLM(["42"], only_spells_ids=True), {}).output[-1])

    assert tokens is not None
    assert tokens.generation == [*sampled("42"), END]


@pytest.mark.parametrize("texts", [["4", "2"], ["token_id:52", "2"], ["token_id: 52", "x"]])
def test_an_answer_whose_log_probs_do_not_spell_ids_has_none(texts: list[str]) -> None:
    entries = [{"token": text, "logprob": -0.5} for text in texts]
    choice = TokenChoice(UpstreamMessage(content="42"), logprobs={"content": entries})

    with pytest.raises(MissingTokens, match="no `token_ids`"):
        generated(choice)


@pytest.mark.parametrize("logprobs", [[1], {"content": [{"token": "x"}]}, {"content": ["x"]}])
def test_log_probs_of_an_unknown_form_are_told(logprobs: Any) -> None:
    choice = TokenChoice(UpstreamMessage(content="42"), logprobs=logprobs)

    with pytest.raises(MissingTokens, match="unknown form"):
        generated(choice)
