"""What only a real vLLM can show: its ids, its parsers, its refusals."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from palestra.errors import ModelRejectedRow
from palestra.responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig
from palestra.responses_api_models.vllm_model.on_policy import check_files
from palestra.responses_api_models.vllm_model.token_ids import continuity_on, tokens_on
from palestra.schema import (
    ChatCreateParams,
    ChatMessage,
    FunctionCall,
    Response,
    ResponseCreateParams,
)
from palestra.serving import Session
from palestra.transport import AiohttpTransport, ServerClient

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(3600)]

Made = TypeVar("Made")

ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"
CITY = {"type": "string", "enum": ["Paris", "Rome"]}
SCHEMA = {"type": "object", "properties": {"city": CITY}, "required": ["city"]}
WEATHER = {"type": "function", "name": "get_weather", "parameters": SCHEMA}


def with_model(url: str, use: Callable[[VLLMModel], Awaitable[Made]], **settings: Any) -> Made:
    """What `use` makes of a `vllm_model` with token ids in front of the endpoint."""

    async def main() -> Made:
        http = AiohttpTransport()
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


def test_tool_calling_rollouts_stay_on_policy(vllm_url: str, tmp_path: Path) -> None:
    repeats = max(1, int(os.environ.get("PALESTRA_VLLM_ROLLOUTS", "20")) // 5)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "policy_model: {responses_api_models: {vllm_model: {entrypoint: app.py, model: smollm2, "
        f"base_url: '{vllm_url}', return_token_id_information: true}}}}}}\n"
    )
    root = Path(sys.modules["palestra"].__file__ or "").parent / "resources_servers" / ENVIRONMENT
    output = tmp_path / "rollouts.jsonl"
    line = [sys.executable, "-c", "from palestra.cli.main import main; main()", "collect"]
    line += [f"+config_paths=[{policy},{root}/configs/{ENVIRONMENT}.yaml]", f"+agent_name={AGENT}"]
    line += [f"+input_jsonl_fpath={root}/data/example.jsonl", f"+output_jsonl_fpath={output}"]
    line += [f"+num_repeats={repeats}", "+num_samples_in_parallel=64"]
    line += ["+responses_create_params.tool_choice=required"]
    line += ["+responses_create_params.temperature=1.0"]
    line += ["+responses_create_params.max_output_tokens=96"]
    line += [f"++{AGENT}.responses_api_agents.simple_agent.max_steps=3"]

    subprocess.run(line, check=True, cwd=tmp_path)

    found = check_files([output])
    sys.stdout.write("\n".join(["", *found.lines(), ""]))
    assert found.on_policy, found.lines()
    assert found.rollouts == 5 * repeats
    assert found.continued > found.rollouts
    assert not found.unsealed


def test_without_sending_ids_the_same_conversation_is_broken_and_marked(vllm_url: str) -> None:
    async def use(model: VLLMModel) -> list[Response]:
        line = await model.check()
        assert "sent as ids" in line
        (found,) = model._found
        model._found[0] = replace(found, generate=False)
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
        return await talk(model, ["Hello.", "word " * 4000], max_output_tokens=8)

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
