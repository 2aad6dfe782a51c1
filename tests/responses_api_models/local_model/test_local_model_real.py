"""The real model in the real engine. Never downloads: without the weights these are skipped."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from palestra.errors import (
    ConfigError,
    CredentialsRejected,
    ModelRejectedRow,
    PromptTooLong,
    ServerDied,
)
from palestra.responses_api_models.chat import Upstream
from palestra.responses_api_models.local_model import find_weights
from palestra.responses_api_models.local_model.app import LocalModel, LocalModelConfig
from palestra.responses_api_models.local_model.running import EngineDied
from palestra.schema import ChatCreateParams, FunctionCall, Response, ResponseCreateParams
from palestra.server import Session
from palestra.transport import CallContext, HttpClient, ServerClient, calling


def missing() -> str:
    """Why these tests cannot run here; empty when they can."""
    if find_spec("xllamacpp") is None:
        return "xllamacpp is not installed: pip install 'palestra[local]'"
    try:
        find_weights(None)
    except ConfigError as error:
        return f"{error.message}; {error.hint}"
    return ""


REASON = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON)]

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}

ENDLESS = {"max_output_tokens": 2000, "metadata": {"extra_body": '{"ignore_eos": true}'}}


@asynccontextmanager
async def started(**settings: Any) -> AsyncIterator[LocalModel]:
    http = HttpClient()
    config = LocalModelConfig(name="policy_model", **{"slots": 2, "threads": 1} | settings)
    model = LocalModel(config=config, server_client=ServerClient({}, http))
    try:
        await model.start()
        yield model
    finally:
        await model.stop()
        await http.aclose()


def with_model(use: Callable[[LocalModel], Awaitable[Any]], **settings: Any) -> Any:
    async def scenario() -> Any:
        async with started(**settings) as model:
            return await use(model)

    return asyncio.run(scenario())


async def ask(model: LocalModel, /, **params: Any) -> Response:
    asked: dict[str, Any] = {"input": "What is 2 + 3?", "max_output_tokens": 12}
    params_ = ResponseCreateParams.model_validate(asked | params)
    return await model.responses(params_, Session("s"))


def test_it_answers_under_its_own_name_whatever_model_is_asked_for() -> None:
    found = with_model(lambda model: ask(model, model="gpt-17"))

    assert found.output_text
    assert found.model == "smollm2-135m-instruct"
    assert found.usage.output_tokens <= 12


def test_the_check_says_what_it_serves() -> None:
    found = with_model(lambda model: model.check())

    assert found.endswith("is reachable and serves smollm2-135m-instruct")


def test_a_request_without_a_limit_ends_at_the_default_one() -> None:
    found = with_model(
        lambda model: ask(model, input="Write a long story.", max_output_tokens=None),
        max_output_tokens_default=5,
    )

    assert found.usage.output_tokens == 5
    assert found.incomplete_details.reason == "max_output_tokens"


def test_a_prompt_beyond_the_context_is_refused_with_its_numbers() -> None:
    with pytest.raises(PromptTooLong, match=r"the prompt has \d+ tokens, the model takes 256"):
        with_model(lambda model: ask(model, input="one two " * 400), context_tokens=256)


def test_the_same_seed_gives_the_same_text() -> None:
    async def three(model: LocalModel) -> list[str]:
        seeds = ['{"seed": 1}', '{"seed": 1}', '{"seed": 2}']
        return [
            (await ask(model, temperature=1.5, metadata={"extra_body": seed})).output_text
            for seed in seeds
        ]

    first, again, other = with_model(three)

    assert first == again != other


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_required_call_is_made_and_fits_its_schema(choice: Any) -> None:
    found = with_model(
        lambda model: ask(
            model,
            input="How is the weather in Paris?",
            tools=[WEATHER],
            tool_choice=choice,
            max_output_tokens=80,
        )
    )

    [call] = found.output
    assert isinstance(call, FunctionCall)
    assert call.name == "get_weather"
    assert call.arguments.startswith('{"city":')


def test_a_tool_call_and_its_output_can_be_read_in_the_next_turn() -> None:
    history = [
        {"role": "user", "content": "How is the weather in Paris?"},
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{broken"},
        {"type": "function_call_output", "call_id": "c", "output": "rain"},
    ]

    assert with_model(lambda model: ask(model, input=history, tools=[WEATHER])).usage


def test_tools_are_rendered_into_the_prompt() -> None:
    async def both(model: LocalModel) -> tuple[Response, Response]:
        return await ask(model), await ask(model, tools=[WEATHER])

    without, with_tools = with_model(both)

    assert with_tools.usage.input_tokens > without.usage.input_tokens + 50


def test_a_schema_that_cannot_be_enforced_is_the_rows_fault() -> None:
    bad = WEATHER | {"parameters": {"type": "object", "properties": {"a": {"type": "floatt"}}}}

    with pytest.raises(ModelRejectedRow, match="floatt"):
        with_model(lambda model: ask(model, tools=[bad], tool_choice="required"))


def test_chat_completions_work_as_well() -> None:
    params = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}

    found = with_model(
        lambda m: m.chat_completions(ChatCreateParams.model_validate(params), Session("s"))
    )

    assert found.choices[0].message.content
    assert found.model == "smollm2-135m-instruct"


def test_nobody_else_on_the_machine_can_use_it() -> None:
    async def intrude(model: LocalModel) -> None:
        stranger = Upstream(
            model.server_client.http, server="stranger", model="m", api_key="wrong-key"
        )
        await stranger.post(model.base_url_for("") + "/chat/completions", {"messages": []})

    with pytest.raises(CredentialsRejected, match="401"):
        with_model(intrude)


def test_more_requests_than_slots_are_all_answered() -> None:
    async def many(model: LocalModel) -> list[Response]:
        asking = [ask(model, input=f"Say {n}.", max_output_tokens=2) for n in range(24)]
        return await asyncio.gather(*asking)

    assert all(found.usage for found in with_model(many))


def test_a_cancelled_request_leaves_its_slot() -> None:
    async def cancel_then_ask(model: LocalModel) -> float:
        slow = asyncio.create_task(ask(model, **ENDLESS))
        await asyncio.sleep(1)
        slow.cancel()
        began = time.monotonic()
        await ask(model, max_output_tokens=2)
        return time.monotonic() - began

    # Alone, the 2000 tokens would take more than 15 seconds.
    assert with_model(cancel_then_ask, slots=1) < 10


def test_calls_fail_by_name_once_the_engine_was_killed() -> None:
    async def kill(model: LocalModel) -> None:
        pid = model._engine.pid
        with calling(CallContext(deadline=time.monotonic() + 20)):
            asking = asyncio.create_task(ask(model, **ENDLESS))
        await asyncio.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        await asking

    with pytest.raises(EngineDied, match=r"policy_model: the model's process \d+ .* SIGKILL"):
        with_model(kill)


def test_a_file_that_is_no_model_is_quoted(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(200))

    with pytest.raises(ServerDied, match=r"before it was ready(.|\n)*broken\.gguf"):
        with_model(ask, model_path=str(broken))


PARENT = """
import asyncio, sys
from palestra.responses_api_models.local_model import running
from palestra.responses_api_models.local_model.app import LocalModel, LocalModelConfig
from palestra.fleet.child import Child
from palestra.transport import HttpClient, ServerClient

async def main():
    spawn = Child.spawn
    async def telling(*args, **kwargs):
        child = await spawn(*args, **kwargs)
        print(child.pid, flush=True)
        return child
    Child.spawn = telling
    config = LocalModelConfig(slots=1, threads=1)
    model = LocalModel(config=config, server_client=ServerClient({}, HttpClient()))
    await model.start()
    print("started", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("loaded", [False, True], ids=["while loading", "while serving"])
def test_a_parent_that_is_killed_leaves_no_engine_behind(*, loaded: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if loaded:
            assert parent.stdout.readline() == "started\n"
        parent.kill()

    assert gone(pid, within_s=5)


def gone(pid: int, *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            if is_zombie(pid):
                return True
            time.sleep(0.02)
        return False
    return True


def is_zombie(pid: int) -> bool:
    """Ended, and adopted by a process that does not collect its dead (as in some containers)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
