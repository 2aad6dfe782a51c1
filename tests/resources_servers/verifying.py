"""Rows, responses and servers for the tests of environments."""

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

import palestra
from palestra.schema import encode_json, read_jsonl
from palestra.server import ResourcesServer, ResourcesServerConfig
from palestra.transport import HttpClient, ServerClient, call_asgi

S = TypeVar("S", bound=ResourcesServer)

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDED = REPOSITORY.parent / "shared" / "data" / "recorded"
ENVIRONMENTS = Path(palestra.__file__).parent / "resources_servers"

PARAMS = {"input": [{"role": "user", "content": "?"}]}


def server_of(cls: type[S]) -> S:
    return cls(
        config=ResourcesServerConfig(name="under_test"),
        server_client=ServerClient({}, HttpClient()),
    )


def response(*output: dict[str, Any]) -> dict[str, Any]:
    return {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": list(output)}


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "m", "role": "assistant", "content": content}


def called(name: str, arguments: str, call_id: str = "c") -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def answered(output: str, call_id: str = "c") -> dict[str, Any]:
    return {"type": "function_call_output", "output": output, "call_id": call_id}


def verify(server: ResourcesServer, row: dict[str, Any], *output: dict[str, Any]) -> dict[str, Any]:
    """What `/verify` answers, which must be a success."""
    status, body = post_verify(server, row, *output)
    assert status == 200, body
    return body


def post_verify(
    server: ResourcesServer, row: dict[str, Any], *output: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    sent = {"responses_create_params": PARAMS, **row, "response": response(*output)}
    reply = asyncio.run(call_asgi(server.asgi_app(), "POST", "/verify", body=encode_json(sent)))
    return reply.status, orjson.loads(reply.body)


def example_rows(name: str) -> list[dict[str, Any]]:
    """The rows an environment ships."""
    path = ENVIRONMENTS / name / "data" / "example.jsonl"
    return [line.row for line in read_jsonl(path)]


def recorded(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Recorded results with the rows they belong to; skips where there are none."""
    results = recorded_results(name)
    tasks = read_jsonl(RECORDED / name / "example.jsonl")
    rows = {_question(line.row): line.row for line in tasks}
    return [(rows[_question(result)], result) for result in results]


def recorded_results(name: str) -> list[dict[str, Any]]:
    """Recorded results; skips where there are none."""
    folder = RECORDED / name
    if not folder.exists():
        pytest.skip(f"no recorded rollouts in {folder}")
    return [line.row for line in read_jsonl(folder / "rollouts.jsonl")]


def _question(row: dict[str, Any]) -> str:
    last = row["responses_create_params"]["input"][-1]
    asked = last["content"] if "content" in last else last["output"]
    # The parts of a recorded prompt may have their fields in another order than the row's.
    return asked if isinstance(asked, str) else "".join(str(part.get("text")) for part in asked)


def agrees(server: ResourcesServer, row: dict[str, Any], result: dict[str, Any]) -> bool:
    """Whether we give a recorded response the reward, and the report, that it had."""
    ours = verify(server, row, *result["response"]["output"])
    reported = result.keys() - {"response", "responses_create_params"}
    return {name: ours[name] for name in reported} == {name: result[name] for name in reported}
