"""The floor: the same exchanges with aiohttp and msgspec, and nothing else.

No sessions, no errors, no identity, no deadline, no journal: what any harness must pay that
speaks to its model endpoint through aiohttp. A second way also reads the task from a line and
writes a result of the same size as ours, as every collection must.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from benchmarks.rollout_overhead.chunks import Contender, chunk_of
from benchmarks.rollout_overhead.payloads import CREATE_PARAMS, MODEL, row

HEADERS = {"content-type": "application/json"}


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    type: str
    function: _Function


class _Message(msgspec.Struct):
    role: str
    content: str | None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Weather(msgspec.Struct):
    city: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Completion).decode
_decode_arguments = msgspec.json.Decoder(_Weather).decode


def _tool(arguments: _Weather) -> dict[str, str]:
    described = f"The weather in {arguments.city} is cold."
    return {"city": arguments.city, "weather_description": described}


def _verify(answer: str | None) -> float:
    return 1.0 if answer else 0.0


def _first_request(params: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {key: tool[key] for key in ("name", "description", "parameters")},
        }
        for tool in params["tools"]
    ]
    return {
        "model": MODEL,
        "messages": params["input"],
        "max_tokens": params["max_output_tokens"],
        "temperature": params["temperature"],
        "tools": tools,
    }


async def _ask(session: aiohttp.ClientSession, url: str, request: dict[str, Any]) -> _Message:
    async with session.post(url, data=_encode(request), headers=HEADERS) as reply:
        return _decode(await reply.read()).choices[0].message


@asynccontextmanager
async def contender(upstream: str) -> AsyncIterator[Contender]:
    """Ways: `floor`, `floor with rows`."""
    url = upstream + "/chat/completions"

    async def ask_twice(params: dict[str, Any]) -> tuple[list[Any], float]:
        request = _first_request(params)
        said = await _ask(session, url, request)
        assert said.tool_calls is not None
        call = said.tool_calls[0]
        output = _tool(_decode_arguments(call.function.arguments))
        # Both spellings of the reasoning field, as Palestra and others send it back.
        turn = {
            "role": "assistant",
            "content": said.content,
            "reasoning_content": said.reasoning,
            "reasoning": said.reasoning,
            "tool_calls": said.tool_calls,
        }
        heard = {"role": "tool", "tool_call_id": call.id, "content": _encode(output).decode()}
        request["messages"] = [*request["messages"], turn, heard]
        answer = await _ask(session, url, request)
        return [turn, heard, answer], _verify(answer.content)

    async def rollout(_task: int) -> float:
        return (await ask_twice(CREATE_PARAMS))[1]

    async def rollout_with_rows(task: int) -> float:
        read = msgspec.json.decode(lines[task])
        trajectory, reward = await ask_twice(read["responses_create_params"])
        response = {"output": trajectory, "tools": read["responses_create_params"]["tools"]}
        journal.write(_encode({**read, "response": response, "reward": reward}) + b"\n")
        return reward

    lines = [_encode(row(task)) for task in range(4096)]
    with tempfile.TemporaryFile(buffering=0) as journal:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as session:
            yield Contender(
                {"floor": chunk_of(rollout), "floor with rows": chunk_of(rollout_with_rows)}
            )
