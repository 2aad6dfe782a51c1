"""The baseline's model server: `python -m ...model BODIES UPSTREAM_URL`."""

import sys
import time
import uuid
from typing import Any

import orjson
from fastapi import FastAPI

from benchmarks.rollout_overhead.payloads import MODEL
from benchmarks.rollout_overhead.seven_hops.http import Client, bodies, make_app, serve


def chat_request(kinds: Any, params: Any) -> dict[str, Any]:
    """The chat completion to ask for; items of one turn fold into one assistant message."""
    messages: list[dict[str, Any]] = []
    turn: dict[str, Any] | None = None
    items = [] if isinstance(params.input, str) else params.input
    for item in items:
        if isinstance(item, kinds.Thought | kinds.Said | kinds.Call):
            if turn is None:
                turn = {"role": "assistant", "content": None}
                messages.append(turn)
            _fold(kinds, turn, item)
        elif isinstance(item, kinds.Output):
            turn = None
            heard = {"role": "tool", "tool_call_id": item.call_id, "content": item.output}
            messages.append(heard)
        else:
            turn = None
            messages.append({"role": item.role, "content": item.content})
    functions = [
        tool.model_dump(exclude_unset=True, exclude={"type", "strict"}) for tool in params.tools
    ]
    return {
        "model": MODEL,
        "messages": messages,
        "max_tokens": params.max_output_tokens,
        "temperature": params.temperature,
        "tools": [{"type": "function", "function": function} for function in functions],
    }


def _fold(kinds: Any, turn: dict[str, Any], item: Any) -> None:
    if isinstance(item, kinds.Thought):
        thoughts = "\n\n".join(part.text for part in item.summary)
        turn["reasoning_content"] = turn["reasoning"] = thoughts
    elif isinstance(item, kinds.Said):
        turn["content"] = "".join(part.text for part in item.content)
    else:
        function = {"name": item.name, "arguments": item.arguments}
        call = {"id": item.call_id, "type": "function", "function": function}
        turn.setdefault("tool_calls", []).append(call)


def to_response(kinds: Any, completion: dict[str, Any], params: Any) -> Any:
    """The completion as a response."""
    message, usage = completion["choices"][0]["message"], completion["usage"]
    output: list[dict[str, Any]] = []
    if message["reasoning"]:
        summary = [{"type": "summary_text", "text": message["reasoning"]}]
        output.append({"type": "reasoning", "id": f"rs_{uuid.uuid4().hex}", "summary": summary})
    if message["content"]:
        content = [{"type": "output_text", "text": message["content"], "annotations": []}]
        output.append(
            {
                "type": "message",
                "id": f"msg_{uuid.uuid4().hex}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{uuid.uuid4().hex}",
            "call_id": call["id"],
            **call["function"],
        }
        for call in message.get("tool_calls") or ()
    ]
    return kinds.Response.model_validate(
        {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": time.time(),
            "model": completion["model"],
            "output": output,
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage["total_tokens"],
            },
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": params.tools,
        }
    )


def build(_url: str) -> FastAPI:
    """One endpoint."""
    app = make_app("model")
    client = Client()
    kinds = bodies(sys.argv[1])
    upstream = sys.argv[2] + "/chat/completions"

    @app.post("/v1/responses")
    async def responses(body: kinds.Params) -> kinds.Response:
        raw, _ = await client.post(upstream, chat_request(kinds, body))
        return to_response(kinds, orjson.loads(raw), body)

    return app


if __name__ == "__main__":
    serve(build)
