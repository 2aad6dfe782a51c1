"""The floor: the same exchanges with aiohttp and msgspec, and nothing else.

No sessions, no errors, no identity, no deadline, no journal: what any harness must pay that
speaks to its model endpoint through aiohttp.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from benchmarks.rollout_overhead.chunks import Contender, chunk_of
from benchmarks.rollout_overhead.payloads import CREATE_PARAMS, MODEL

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


def _first_request() -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {key: tool[key] for key in ("name", "description", "parameters")},
        }
        for tool in CREATE_PARAMS["tools"]
    ]
    return {
        "model": MODEL,
        "messages": CREATE_PARAMS["input"],
        "max_tokens": CREATE_PARAMS["max_output_tokens"],
        "temperature": CREATE_PARAMS["temperature"],
        "tools": tools,
    }


async def _ask(session: aiohttp.ClientSession, url: str, request: dict[str, Any]) -> _Message:
    async with session.post(url, data=_encode(request), headers=HEADERS) as reply:
        return _decode(await reply.read()).choices[0].message


@asynccontextmanager
async def contender(upstream: str) -> AsyncIterator[Contender]:
    """One way: `floor`."""
    url = upstream + "/chat/completions"

    async def rollout(_task: int) -> float:
        request = _first_request()
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
        return _verify((await _ask(session, url, request)).content)

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield Contender({"floor": chunk_of(rollout)})
