"""Malformed bodies are refused as the models of the field's interface say, and others are not."""

from pathlib import Path
from typing import Any

import pytest
from hosted_apps import JUDGE, RESPONSE, run
from pydantic import ValidationError

from palestra.compat.nemo_gym.base_resources_server import AggregateMetricsRequest, BaseRunRequest
from palestra.compat.nemo_gym.openai_utils import (
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymChatCompletionMessageToolCall,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.compat.nemo_gym.prompt import PromptConfig
from palestra.errors import RowError, status_for
from palestra.fleet import Fleet
from palestra.schema import VerifyResponse

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}

WRONG_PARAMS: list[dict[str, Any]] = [
    {"input": 5},
    {"input": [{"foo": 1}]},
    {"input": [{"role": 5, "content": "x"}]},
    {"input": [{"role": "somebody", "content": "x"}]},
    {"input": [{"type": "message", "content": "x"}]},
    {"input": [{"role": "user", "content": [{"text": "x"}]}]},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]},
    {"input": [{"role": "assistant", "content": [{"type": "output_text"}], "type": "message"}]},
    {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}}]},
    {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"text": "x"}]}]},
    {"input": "x", "tools": ["f"]},
    {"input": "x", "tools": [{"name": "f"}]},
    {"input": "x", "tools": [{"type": "function"}]},
    {"input": "x", "tools": [{**TOOL, "parameters": []}]},
    {"input": "x", "tools": [{**TOOL, "strict": "yes"}]},
    {"input": "x", "tool_choice": "sometimes"},
    {"input": "x", "tool_choice": {"name": "f"}},
    {"input": "x", "truncation": "much"},
    {"input": "x", "reasoning": {"effort": 3}},
    {"input": "x", "text": {"format": "json"}},
    {"input": "x", "metadata": {"a": 1}},
    {"input": "x", "max_output_tokens": "many"},
    {"input": "x", "stream": True},
    {"input": "x", "something_new": 1},
]

RIGHT_PARAMS: list[dict[str, Any]] = [
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]},
    {"input": [{"role": "user", "content": [{"type": "something_new", "x": 1}]}]},
    {"input": [{"type": "something_new", "x": 1}]},
    {"input": "x", "tools": [TOOL, {"type": "web_search", "x": 1}], "tool_choice": "required"},
    {"input": "x", "tools": [{"name": "f", "strict": None, "type": "function"}]},
    {"input": "x", "tool_choice": {"type": "function", "name": "f"}},
    {"input": "x", "reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}}},
]


@pytest.mark.parametrize("params", WRONG_PARAMS)
def test_wrong_create_params_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BaseRunRequest.model_validate({"responses_create_params": params})


@pytest.mark.parametrize("params", RIGHT_PARAMS)
def test_right_create_params_are_kept_as_they_are(params: dict[str, Any]) -> None:
    held = NeMoGymResponseCreateParamsNonStreaming.model_validate(params)

    assert held.model_dump(exclude_unset=True) == params
    # Templates show a tool to the model in the order in which it is written.
    assert [list(tool) for tool in held.tools] == [list(tool) for tool in params.get("tools", [])]


@pytest.mark.parametrize(
    "wrong",
    [
        {"output": None},
        {"output": [{"id": "x"}]},
        {"output": [{"type": "message", "role": "assistant", "content": [{"text": "x"}]}]},
        {"output": [{"type": "reasoning", "summary": ["x"]}]},
        {"status": "perhaps"},
        {"error": "it failed"},
        {"usage": {"input_tokens": "many", "output_tokens": 1, "total_tokens": 1}},
        {"tools": [{"name": "f"}]},
        {"created_at": "yesterday"},
    ],
)
def test_a_wrong_response_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NeMoGymResponse.model_validate({**RESPONSE, **wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": [{"content": "x"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
        {"tools": [TOOL]},
        {"tool_choice": "sometimes"},
        {"response_format": "json"},
    ],
)
def test_a_wrong_chat_request_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NeMoGymChatCompletionCreateParamsNonStreaming.model_validate(
            {"messages": [{"role": "user", "content": "x"}], **wrong}
        )


def test_a_chat_request_may_hold_models() -> None:
    call = NeMoGymChatCompletionMessageToolCall.model_validate(
        {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    )
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "3"},
    ]

    held = NeMoGymChatCompletionCreateParamsNonStreaming.model_validate({"messages": messages})

    assert held.messages[0].tool_calls[0].function.name == "f"


def test_metrics_of_nothing_are_refused() -> None:
    with pytest.raises(ValidationError, match="verify_responses"):
        AggregateMetricsRequest.model_validate({})


PLAIN = """
class Plain(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)
"""


def test_a_hosted_environment_refuses_a_row_and_names_its_fields(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        params = {"input": "x", "tools": [{"type": "function"}], "truncation": "much"}
        row = {"responses_create_params": params, "response": RESPONSE}
        with pytest.raises(RowError) as refused:
            await fleet.client.peer("plain").call("/verify", row, VerifyResponse)
        assert status_for(refused.value) == 422
        pointers = {problem.pointer for problem in refused.value.evidence.problems}
        assert "/responses_create_params/truncation" in pointers
        assert any(p.startswith("/responses_create_params/tools/0") for p in pointers)

    run(tmp_path, {"resources_servers/plain": PLAIN}, check)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": [{"role": 5, "content": "x"}]}),
        ("/v1/chat/completions", {"messages": [{"content": "x"}]}),
        ("/v1/messages", {"model": "m", "messages": "x"}),
    ],
)
def test_a_hosted_model_server_refuses_a_wrong_request(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.post("judge", path, json=body)
        assert reply.status == 422, await reply.text()

    run(tmp_path, {"responses_api_models/judge": JUDGE}, check)


def test_nemo_gym_prompt_config_refuses_a_misspelt_key_instead_of_losing_the_message() -> None:
    with pytest.raises(ValidationError, match="sytem"):
        PromptConfig(user="{question}", sytem="You judge.")  # type: ignore[call-arg]
