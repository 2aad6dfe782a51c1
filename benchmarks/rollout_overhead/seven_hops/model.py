"""The baseline's model server: `python -m ...model UPSTREAM_URL`."""

import sys
import time
import uuid
from typing import Any

import orjson
from fastapi import FastAPI

from benchmarks.rollout_overhead.payloads import MODEL
from benchmarks.rollout_overhead.seven_hops.http import Client, make_app, serve
from benchmarks.rollout_overhead.seven_hops.wire import (
    Call,
    Output,
    Params,
    Response,
    Said,
    Thought,
)


def chat_request(params: Params) -> dict[str, Any]:
    """The chat completion to ask for; items of one turn fold into one assistant message."""
    messages: list[dict[str, Any]] = []
    turn: dict[str, Any] | None = None
    items = [] if isinstance(params.input, str) else params.input
    for item in items:
        if isinstance(item, Thought | Said | Call):
            if turn is None:
                turn = {"role": "assistant", "content": None}
                messages.append(turn)
            _fold(turn, item)
        elif isinstance(item, Output):
            turn = None
            heard = {"role": "tool", "tool_call_id": item.call_id, "content": item.output}
            messages.append(heard)
        else:
            turn = None
            messages.append({"role": item.role, "content": item.content})
    functions = [tool.model_dump(exclude={"type", "strict"}) for tool in params.tools]
    return {
        "model": MODEL,
        "messages": messages,
        "max_tokens": params.max_output_tokens,
        "temperature": params.temperature,
        "tools": [{"type": "function", "function": function} for function in functions],
    }


def _fold(turn: dict[str, Any], item: Thought | Said | Call) -> None:
    if isinstance(item, Thought):
        thoughts = "\n\n".join(part.text for part in item.summary)
        turn["reasoning_content"] = turn["reasoning"] = thoughts
    elif isinstance(item, Said):
        turn["content"] = "".join(part.text for part in item.content)
    else:
        function = {"name": item.name, "arguments": item.arguments}
        call = {"id": item.call_id, "type": "function", "function": function}
        turn.setdefault("tool_calls", []).append(call)


def to_response(completion: dict[str, Any], params: Params) -> Response:
    """The completion as a response."""
    message, usage = completion["choices"][0]["message"], completion["usage"]
    output: list[dict[str, Any]] = []
    if message["reasoning"]:
        summary = [{"type": "summary_text", "text": message["reasoning"]}]
        output.append({"type": "reasoning", "id": f"rs_{uuid.uuid4().hex}", "summary": summary})
    if message["content"]:
        content = [{"type": "output_text", "text": message["content"], "annotations": []}]
        output.append({"type": "message", "id": f"msg_{uuid.uuid4().hex}", "content": content})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{uuid.uuid4().hex}",
            "call_id": call["id"],
            **call["function"],
        }
        for call in message.get("tool_calls") or ()
    ]
    return Response.model_validate(
        {
            "id": f"resp_{uuid.uuid4().hex}",
            "created_at": time.time(),
            "model": completion["model"],
            "output": output,
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": usage["completion_tokens"],
                "total_tokens": usage["total_tokens"],
            },
            "tools": params.tools,
        }
    )


def build(_url: str) -> FastAPI:
    """One endpoint."""
    app = make_app("model")
    client = Client()
    upstream = sys.argv[1] + "/chat/completions"

    @app.post("/v1/responses")
    async def responses(body: Params) -> Response:
        raw, _ = await client.post(upstream, chat_request(body))
        return to_response(orjson.loads(raw), body)

    return app


if __name__ == "__main__":
    serve(build)
