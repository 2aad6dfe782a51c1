"""What goes over the wire: one task, and the two answers of the fake upstream.

The answers have the shape captured from vLLM 0.32 (every null field included), with reasoning
and text of the length that current models write.
"""

import json
from typing import Any

AGENT = "example_single_tool_call_simple_agent"
MODEL = "fake-model"

_SYSTEM = (
    "You help people plan their day. Use the tools you have before you answer: never state a "
    "fact about the weather that no tool has told you. Call one tool at a time and read what it "
    "says. When you know enough, answer in plain prose for somebody who is about to leave the "
    "house: what to wear, what to carry, and whether to change the plan. "
)
_QUESTION = (
    "I land in Bergen this evening at seven and walk from the station to the hotel, which takes "
    "about half an hour with a suitcase. Tomorrow morning I have a meeting across the harbour, "
    "and in the afternoon I would like to take the funicular up and walk back down through the "
    "forest with two colleagues, one of whom has a bad knee. What is the weather, what should I "
    "pack, and is the walk a good idea at all? "
)
_THOUGHT = (
    "The user asks about Bergen. I need the current weather before I can say anything about "
    "clothes or about the walk, so I should call get_weather with the city. "
)
_ANSWER = (
    "It is cold in Bergen, so pack for that first: a warm coat, gloves, and shoes with a sole "
    "that holds on wet stone. From the station the pavement is good all the way. "
)

PARAMETERS: dict[str, Any] = {
    "additionalProperties": False,
    "properties": {"city": {"description": "the city's name", "type": "string"}},
    "required": ["city"],
    "type": "object",
}

CREATE_PARAMS: dict[str, Any] = {
    "input": [
        {"role": "system", "content": _SYSTEM * 2},
        {"role": "user", "content": _QUESTION},
    ],
    "tools": [
        {
            "type": "function",
            "name": "get_weather",
            "description": "Get the current weather of a city.",
            "parameters": PARAMETERS,
            "strict": True,
        }
    ],
    "max_output_tokens": 2048,
    "temperature": 1.0,
}


def row(task: int) -> dict[str, Any]:
    """One materialized row."""
    return {
        "responses_create_params": CREATE_PARAMS,
        "expected_city": "Bergen",
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
    }


def _completion(message: dict[str, Any], finish_reason: str) -> bytes:
    said = {
        "role": "assistant",
        "content": "",
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    choice = {
        "index": 0,
        "message": said | message,
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }
    completion = {
        "id": "chatcmpl-aa6294eb41bd7e3d",
        "object": "chat.completion",
        "created": 1795232546,
        "model": MODEL,
        "choices": [choice],
        "service_tier": None,
        "system_fingerprint": "vllm-0.32.0-4e8812e1",
        "usage": {
            "prompt_tokens": 486,
            "total_tokens": 849,
            "completion_tokens": 363,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }
    return json.dumps(completion, separators=(",", ":")).encode()


_CALL = {
    "id": "chatcmpl-tool-a4a191df1be82754",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Bergen"}'},
}

TOOL_CALL_COMPLETION = _completion(
    {"content": None, "tool_calls": [_CALL], "reasoning": _THOUGHT * 9}, "tool_calls"
)
FINAL_COMPLETION = _completion({"content": _ANSWER * 10, "reasoning": _THOUGHT * 4}, "stop")

TOOL_ANSWERED = b'"tool_call_id"'
"""Only a request that follows a tool call has this."""
