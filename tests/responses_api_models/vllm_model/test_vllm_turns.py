import asyncio
from typing import Any

import pytest
from token_fakes import CALL_AS_WRITTEN, END, FakeVLLM, detokenize, sampled, token_model

from palestra.errors import WrongSetting
from palestra.responses_api_models.vllm_model.app import VLLMModel
from palestra.responses_api_models.vllm_model.on_policy import check_rollout
from palestra.responses_api_models.vllm_model.token_ids import continuity_on, tokens_on
from palestra.schema import (
    ChatCreateParams,
    ChatMessage,
    FunctionCall,
    FunctionCallOutput,
    Response,
    ResponseCreateParams,
    changed,
)
from palestra.server import Session

TOKEN_FIELDS = {"prompt_token_ids", "generation_token_ids", "generation_log_probs"}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}


def params(**settings: Any) -> ResponseCreateParams:
    return ResponseCreateParams.model_validate({"input": "Weather?", "tools": [TOOL], **settings})


def converse(model: VLLMModel, asked: ResponseCreateParams, turns: int) -> list[Response]:
    """Turn after turn, as an agent does it; a call is answered with `cold`."""

    async def talk() -> list[Response]:
        request, answers = asked, []
        items: list[Any] = [{"role": "user", "content": "Weather?"}]
        for _ in range(turns):
            answer = await model.responses(request, Session("s"))
            answers.append(answer)
            items += [item.model_dump() for item in answer.output]
            calls = [item for item in answer.output if isinstance(item, FunctionCall)]
            outputs = [{"call_id": c.call_id, "output": "cold"} for c in calls]
            items += [{"type": "function_call_output", **output} for output in outputs]
            request = ResponseCreateParams.model_validate({**asked.model_dump(), "input": items})
        return answers

    return asyncio.run(talk())


def whole(answers: list[Response]) -> Response:
    """The trajectory that an agent makes of its turns."""
    output: list[Any] = []
    for answer in answers:
        output += answer.output
        calls = [item for item in answer.output if isinstance(item, FunctionCall)]
        output += [FunctionCallOutput(call_id=call.call_id, output="cold") for call in calls]
    return changed(answers[-1], {"output": output})


def states(answers: list[Response]) -> list[tuple[str, str]]:
    found = [continuity_on(answer.output[-1]) for answer in answers]
    return [(marker.state.value, marker.reason) for marker in found if marker is not None]


def test_a_turn_carries_its_ids_and_log_probs_on_its_last_item() -> None:
    (answer,) = converse(token_model(FakeVLLM(["Cold."])), params(), 1)

    tokens = tokens_on(answer.output[-1])
    assert tokens is not None
    assert tokens.generation == [*sampled("Cold."), END]
    assert tokens.log_probs == [-0.5] * 6
    assert answer.output_text == "Cold."


def test_a_later_prompt_starts_with_the_ids_before_it_whatever_a_rendering_makes_of_them() -> None:
    http = FakeVLLM([CALL_AS_WRITTEN, CALL_AS_WRITTEN, "Cold."])

    answers = converse(token_model(http), params(), 3)

    assert [state for state, _ in states(answers)] == ["first", "continued", "continued"]
    found = check_rollout(params(), whole(answers))
    assert (found.continued, found.problems) == (2, [])
    prompt = tokens_on(answers[2].output[-1])
    assert prompt is not None
    assert detokenize(prompt.prompt).count(CALL_AS_WRITTEN) == 2
    assert answers[2].output_text == "Cold."


def test_an_endpoint_that_takes_no_ids_has_its_retokenizations_marked() -> None:
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold."], takes_ids=False)

    answers = converse(token_model(http), params(), 2)

    state, reason = states(answers)[1]
    assert state == "broken"
    assert "takes no token ids" in reason
    found = check_rollout(params(), whole(answers))
    assert (sum(found.broken.values()), found.problems, found.on_policy) == (1, [], False)


def test_without_retokenization_a_rendered_prompt_counts_as_continued() -> None:
    http = FakeVLLM(["plain words", "more"], takes_ids=False)

    answers = converse(token_model(http), params(), 2)

    assert states(answers)[1] == ("continued", "")


def test_an_edited_history_is_not_continued_and_says_so() -> None:
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold."])
    model = token_model(http)
    (first,) = converse(model, params(), 1)
    items: list[Any] = [{"role": "user", "content": "Weather in Oslo?"}, *first.output]
    edited = changed(params(), {"input": ResponseCreateParams(input=items).input})

    second = asyncio.run(model.responses(edited, Session("s")))

    assert states([second])[0][0] == "broken"
    assert "not the one that the model read" in states([second])[0][1]


def second_turn(model: VLLMModel, *, lost: str) -> Response:
    """The turn after the first, from a client that drops the field `lost` of its items."""
    (first,) = converse(model, params(), 1)
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    items += [{k: v for k, v in item.model_dump().items() if k != lost} for item in first.output]
    items.append({"role": "user", "content": "And tomorrow?"})
    return asyncio.run(model.responses(params(input=items), Session("s")))


@pytest.mark.parametrize("lost", ["token_continuity", "generation_token_ids"])
def test_a_history_that_lost_what_it_carried_is_told(lost: str) -> None:
    second = second_turn(token_model(FakeVLLM([CALL_AS_WRITTEN, "Cold."])), lost=lost)

    assert states([second])[0][1]


def test_the_three_lists_alone_are_conforming_where_the_rendered_history_has_the_same_ids() -> None:
    plain, rewritten = FakeVLLM(["plain", "more"]), FakeVLLM([CALL_AS_WRITTEN, "Cold."])

    same, other = (
        second_turn(token_model(http), lost="token_continuity") for http in (plain, rewritten)
    )

    assert states([same]) == [("unsealed", "")]
    assert states([other])[0][0] == "broken"
    assert "other ids when it is rendered" in states([other])[0][1]


def test_an_endpoint_that_wants_the_three_lists_gets_them_on_its_messages() -> None:
    http = FakeVLLM(["plain", "more", "and more"])
    model = token_model(http, pass_on_token_ids=True)
    second_turn(model, lost="token_continuity")
    said = http.asked("/v1/chat/completions")[-1]["messages"]
    chat = ChatCreateParams(messages=[ChatMessage.model_validate(message) for message in said])
    asyncio.run(model.chat_completions(chat, Session("s")))

    assert http.asked("/v1/chat/completions")[-1]["messages"] == said
    assert [message.keys() >= TOKEN_FIELDS for message in said] == [False, True, False]
    assert detokenize(said[1]["generation_token_ids"]).startswith("plain")


def test_media_are_never_moved_to_another_position() -> None:
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold."], features={"mm_placeholders": {}})

    answers = converse(token_model(http), params(), 2)

    assert states(answers)[1][0] == "broken"


def test_a_turn_that_was_cut_off_is_closed_before_the_next_message() -> None:
    http = FakeVLLM(['{"x', "Cold."], finish_reason="length")
    model = token_model(http)
    (first,) = converse(model, params(), 1)
    items: list[Any] = [
        {"role": "user", "content": "Weather?"},
        *[item.model_dump() for item in first.output],
        {"role": "user", "content": "Go on."},
    ]

    second = asyncio.run(model.responses(params(input=items), Session("s")))

    tokens = tokens_on(second.output[-1])
    assert tokens is not None
    assert states([second]) == [("continued", "")]
    assert '{"x<|im_end|>\n<|im_start|>user\nGo on.' in detokenize(tokens.prompt)


def test_an_endpoint_that_ignores_token_ids_is_a_setting_that_cannot_be() -> None:
    http = FakeVLLM(["Cold."], returns_ids=False, takes_ids=False)

    with pytest.raises(WrongSetting, match="returns no token ids"):
        asyncio.run(token_model(http).check())


def test_the_endpoint_is_asked_what_it_can_do_once() -> None:
    http = FakeVLLM(["a", "b", "c"])
    model = token_model(http)

    said = asyncio.run(_check_then_talk(model))

    assert "vLLM 0.32.0" in said
    assert "later prompts: sent as ids" in said
    assert len(http.asked("/version")) == 1


async def _check_then_talk(model: VLLMModel) -> str:
    said = await model.check()
    for _ in range(2):
        await model.responses(params(), Session("s"))
    return said


def test_a_chat_carries_its_ids_on_its_messages() -> None:
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold."])
    model = token_model(http)
    first_message = ChatMessage(role="user", content="Weather?")

    async def talk() -> ChatMessage:
        chat = ChatCreateParams(messages=[first_message])
        answer = (await model.chat_completions(chat, Session("s"))).choices[0].message
        repeated = ChatMessage.model_validate(answer.model_dump())
        output = ChatMessage(role="tool", tool_call_id="call_1", content="cold")
        chat = ChatCreateParams(messages=[first_message, repeated, output])
        return (await model.chat_completions(chat, Session("s"))).choices[0].message

    message = asyncio.run(talk())

    marker, tokens = continuity_on(message), tokens_on(message)
    assert marker is not None
    assert tokens is not None
    assert marker.state.value == "continued"
    assert CALL_AS_WRITTEN in detokenize(tokens.prompt)
    assert "generation_token_ids" not in str(http.asked("/v1/chat/completions/render"))
