"""What only a real vLLM can show: its ids, its parsers, its refusals."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from palestra.errors import ModelRejectedRow, RowError
from palestra.responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig
from palestra.responses_api_models.vllm_model.on_policy import check_files
from palestra.responses_api_models.vllm_model.token_ids import (
    continuity_on,
    decode_with_tokens,
    tokens_on,
)
from palestra.responses_api_models.vllm_model.wire import (
    ASKED,
    CHAT,
    TOKENIZE,
    read_ids,
    to_tokenize,
)
from palestra.schema import (
    ChatCreateParams,
    ChatMessage,
    FunctionCall,
    Response,
    ResponseCreateParams,
)
from palestra.server import Session
from palestra.transport import (
    HttpClient,
    HttpReply,
    HttpRequest,
    HttpTransport,
    ServerClient,
)

pytestmark = [pytest.mark.vllm, pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(3600)]

Made = TypeVar("Made")

CITY = {"type": "string", "enum": ["Paris", "Rome"]}
SCHEMA = {"type": "object", "properties": {"city": CITY}, "required": ["city"]}
WEATHER = {"type": "function", "name": "get_weather", "parameters": SCHEMA}


def with_model(
    url: str,
    use: Callable[[VLLMModel], Awaitable[Made]],
    *,
    http: HttpTransport | None = None,
    **settings: Any,
) -> Made:
    """What `use` makes of a `vllm_model` with token ids in front of the endpoint."""
    http = http or HttpClient()

    async def main() -> Made:
        config = VLLMModelConfig.model_validate(
            {"base_url": url, "model": "smollm2", "return_token_id_information": True, **settings}
        )
        try:
            return await use(VLLMModel(config=config, server_client=ServerClient({}, http)))
        finally:
            await http.aclose()

    return asyncio.run(main())


async def talk(model: VLLMModel, said: list[str], **settings: Any) -> list[Response]:
    """A conversation in which the user says these things."""
    items: list[Any] = []
    answers = []
    for text in said:
        items.append({"role": "user", "content": text})
        params = ResponseCreateParams.model_validate({"input": items, **settings})
        answer = await model.responses(params, Session("s"))
        answers.append(answer)
        items += [item.model_dump() for item in answer.output]
        calls = [item for item in answer.output if isinstance(item, FunctionCall)]
        for call in calls:
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "cold"}
            items.append(output)
    return answers


def states(answers: list[Response]) -> list[str]:
    found = [continuity_on(answer.output[-1]) for answer in answers]
    return [marker.state.value if marker else "none" for marker in found]


def test_tool_calling_rollouts_stay_on_policy(rollouts: Path) -> None:
    found = check_files([rollouts])

    sys.stdout.write("\n".join(["", *found.lines(), ""]))
    assert found.on_policy, found.lines()
    assert found.rollouts == len(rollouts.read_text().splitlines())
    assert found.continued > found.rollouts


def test_without_sending_ids_the_same_conversation_is_broken_and_marked(vllm_url: str) -> None:
    async def use(model: VLLMModel) -> list[Response]:
        line = await model.check()
        assert "sent as ids" in line
        found = model._known_capabilities.now(vllm_url)
        model._known_capabilities.note(replace(found, ids_in=False))
        return await talk(
            model, ["Weather in Rome?", "And now?"], tools=[WEATHER], tool_choice="required",
            max_output_tokens=64, temperature=0.0,
        )  # fmt: skip

    assert states(with_model(vllm_url, use)) == ["first", "broken"]


@pytest.mark.parametrize("settings", [{}, {"extra_body": {"stop": ["e"]}}])
def test_a_later_turn_reads_as_an_ordinary_chat_completion_does(
    vllm_url: str, settings: dict[str, Any]
) -> None:
    """The same prompt twice, once as a chat and once as ids: the text must be the same."""
    said = ["Say hello.", "Name a city."]

    async def continued(model: VLLMModel) -> list[Response]:
        return await talk(model, said, temperature=0.0, max_output_tokens=24)

    turns = with_model(vllm_url, continued, **settings)
    history: list[Any] = [{"role": "user", "content": said[0]}]
    history += [{"role": "assistant", "content": turns[0].output_text}]
    history += [{"role": "user", "content": said[1]}]

    async def anew(model: VLLMModel) -> Response:
        params = {"input": history, "temperature": 0.0, "max_output_tokens": 24}
        return await model.responses(ResponseCreateParams.model_validate(params), Session("t"))

    again = with_model(vllm_url, anew, **settings)

    one, other = tokens_on(turns[1].output[-1]), tokens_on(again.output[-1])
    assert one is not None
    assert other is not None
    assert states(turns) == ["first", "continued"]
    assert "<|im_end|>" not in turns[1].output_text
    if one.prompt == other.prompt:
        assert turns[1].output_text == again.output_text


def test_a_call_that_is_forced_is_parsed_by_vllms_own_parser(vllm_url: str) -> None:
    async def use(model: VLLMModel) -> list[Response]:
        return await talk(
            model, ["Weather in Rome?", "And in Paris?"], tools=[WEATHER],
            tool_choice="required", max_output_tokens=64,
        )  # fmt: skip

    answers = with_model(vllm_url, use)

    assert states(answers) == ["first", "continued"]
    calls = [item for a in answers for item in a.output if isinstance(item, FunctionCall)]
    assert [call.name for call in calls] == ["get_weather"] * len(calls)
    assert len(calls) >= 2


def test_a_turn_cut_by_its_limit_is_continued_as_it_is(vllm_url: str) -> None:
    async def use(model: VLLMModel) -> list[Response]:
        return await talk(model, ["Tell a long story.", "Go on."], max_output_tokens=6)

    answers = with_model(vllm_url, use)

    assert answers[0].incomplete_details is not None
    assert states(answers) == ["first", "continued"]


def test_a_conversation_that_outgrows_the_context_ends_truncated(vllm_url: str) -> None:
    async def use(model: VLLMModel) -> list[Response]:
        return await talk(model, ["Hello.", "word " * 9000], max_output_tokens=8)

    last = with_model(vllm_url, use)[-1]

    assert last.incomplete_details is not None
    assert last.incomplete_details.reason == "max_output_tokens"
    assert last.output_text == ""


def test_a_tool_that_vllm_refuses_is_the_rows_fault_in_vllms_own_words(vllm_url: str) -> None:
    bad = {"type": "object", "properties": {"x": {"type": "string", "pattern": "["}}}
    tool = {"type": "function", "name": "f", "parameters": bad}

    async def use(model: VLLMModel) -> list[Response]:
        return await talk(model, ["Go."], tools=[tool], tool_choice="required")

    with pytest.raises(ModelRejectedRow, match="grammar"):
        with_model(vllm_url, use)


def test_a_chat_of_an_openai_client_is_continued_by_its_ids(vllm_url: str) -> None:
    function = {name: WEATHER[name] for name in ("name", "parameters")}
    tools = [{"type": "function", "function": function}]

    async def use(model: VLLMModel) -> list[ChatMessage]:
        messages = [ChatMessage(role="user", content="Weather in Rome?")]
        answers = []
        for _ in range(3):
            chat = ChatCreateParams(
                messages=messages, tools=tools, tool_choice="required", max_tokens=64
            )
            completion = await model.chat_completions(chat, Session("s"))
            answer = ChatMessage.model_validate(completion.choices[0].message.model_dump())
            answers.append(answer)
            outputs = [
                ChatMessage(role="tool", tool_call_id=call["id"], content="cold")
                for call in answer.tool_calls or ()
            ]
            messages = [*messages, answer, *outputs]
        return answers

    answers = with_model(vllm_url, use)

    marks = [continuity_on(answer) for answer in answers]
    assert [mark.state.value if mark else "" for mark in marks] == ["first"] + ["continued"] * 2
    tokens = [tokens_on(answer) for answer in answers]
    assert all(
        later and earlier and later.prompt[: len(earlier.all)] == earlier.all
        for earlier, later in pairwise(tokens)
    )


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"},
        {"add_generation_prompt": False, "continue_final_message": True},
        {"chat_template_kwargs": {"enable_thinking": False}, "documents": [{"text": "x"}]},
        {"reasoning_effort": "low"},
    ],
)
def test_tokenize_makes_the_prompt_that_the_completion_read(
    vllm_url: str, asked: dict[str, Any]
) -> None:
    chat = [{"role": "user", "content": "Say hello."}, {"role": "assistant", "content": "Hel"}]
    request = {"model": "smollm2", "messages": chat, "max_tokens": 1, **asked}

    async def use(model: VLLMModel) -> tuple[Any, Any]:
        completion = await model.post(CHAT, {**request, **ASKED}, Session("s"))
        tokenized = await model.post(TOKENIZE, to_tokenize(request), Session("s"))
        return completion.body, tokenized.body

    completion, tokenized = with_model(vllm_url, use)

    assert read_ids(tokenized) == decode_with_tokens(completion).prompt_token_ids


class OlderVLLM:
    """The same vLLM as it was before it knew `return_token_ids`."""

    def __init__(self) -> None:
        self._http = HttpClient()

    async def send(self, request: HttpRequest, /) -> HttpReply:
        reply = await self._http.send(request)
        if not request.url.endswith(CHAT):
            return reply
        made = orjson.loads(reply.body)
        made.pop("prompt_token_ids", None)
        for choice in made.get("choices", ()):
            choice.pop("token_ids", None)
        return HttpReply(status=reply.status, body=orjson.dumps(made))

    async def aclose(self) -> None:
        await self._http.aclose()


def test_ids_that_are_spelt_and_tokenized_are_those_that_are_returned(vllm_url: str) -> None:
    async def use(model: VLLMModel) -> list[Response]:
        return await talk(model, ["Weather?"], tools=[WEATHER], temperature=0, max_output_tokens=4)

    returned = tokens_on(with_model(vllm_url, use)[0].output[-1])
    spelt = tokens_on(with_model(vllm_url, use, http=OlderVLLM())[0].output[-1])

    assert returned is not None
    assert spelt is not None
    assert spelt.prompt == returned.prompt
    assert spelt.generation == returned.generation


def test_a_row_that_asks_for_several_answers_is_refused(vllm_url: str) -> None:
    async def use(model: VLLMModel) -> list[Response]:
        return await talk(model, ["Go."], n=2)

    with pytest.raises(RowError, match="an `n` of 1"):
        with_model(vllm_url, use)
