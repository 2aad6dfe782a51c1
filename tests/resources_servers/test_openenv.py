"""Episodes at an OpenEnv server: one that speaks its protocol here, and a real one.

The real one is started by the Python that `OPENENV_PYTHON` names (`pip install openenv-core` there;
it holds back versions of ours); without it that test is skipped.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web
from verifying import example_rows, response, said

from palestra.errors import CallError, ConfigError, EnvironmentFault, InfraError
from palestra.resources_servers.openenv.app import OpenEnvRow, OpenEnvServer, OpenEnvServerConfig
from palestra.schema import Response
from palestra.server import Opening, Session, Step, StepRequest
from palestra.transport import HttpClient, ServerClient

ECHO = {"action_field": "message", "observation_field": "echoed_message"}

REAL_SERVER = """
import sys

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Said(Action):
    message: str


class Echoed(Observation):
    echoed_message: str = ""


class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(step_count=0)

    def reset(self, seed=None):
        return Echoed(echoed_message=f"ready {seed}")

    def step(self, action):
        self._state.step_count += 1
        if action.message == "break":
            raise ValueError("broken")
        over = self._state.step_count == 3
        return Echoed(echoed_message=action.message, reward=len(action.message) * 0.1, done=over)

    @property
    def state(self):
        return self._state


app = create_app(Echo, Said, Echoed, env_name="echo", max_concurrent_envs=2)
uvicorn.run(app, fd=int(sys.argv[1]), log_level="warning")
"""

Answers = Callable[[dict[str, Any]], dict[str, Any] | None]


def echo(message: dict[str, Any]) -> dict[str, Any] | None:
    """What the echo environment that OpenEnv ships answers."""
    if message["type"] == "reset":
        return observed(f"ready {message['data'].get('seed')}")
    if "message" not in message["data"]:
        missing = {"loc": ["message"], "msg": "Field required"}
        return trouble("VALIDATION_ERROR", "Invalid message", errors=[missing])
    said_now = message["data"]["message"]
    return observed(said_now, reward=len(said_now) * 0.1, done=said_now == "end")


def observed(text: str, **fields: Any) -> dict[str, Any]:
    data = {"observation": {"echoed_message": text}, "reward": None, "done": False, **fields}
    return {"type": "observation", "data": data}


def trouble(code: str, message: str, **fields: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"code": code, "message": message, **fields}}


@asynccontextmanager
async def speaking(answers: Answers) -> AsyncIterator[str]:
    """The URL of a server that answers so; None hangs up, silence is `{}`."""

    async def talk(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            answer = answers(orjson.loads(message.data))
            if answer is None:
                break
            if answer:
                await ws.send_str(orjson.dumps(answer).decode())
        return ws

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "healthy"})

    app = web.Application()
    app.add_routes([web.get("/ws", talk), web.get("/health", health)])
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def started(url: str, **settings: Any) -> AsyncIterator[OpenEnvServer]:
    server = OpenEnvServer(
        config=OpenEnvServerConfig(name="under_test", base_url=url, **settings),
        server_client=ServerClient({}, HttpClient()),
    )
    await server.start()
    try:
        yield server
    finally:
        await server.shut_down()


async def played(
    server: OpenEnvServer, *turns: str, row: dict[str, Any] | None = None
) -> tuple[Opening, list[Step]]:
    session = Session("a")
    try:
        opening = await server.reset(OpenEnvRow.model_validate(row or {}), session)
        steps = []
        for text in turns:
            turn = Response.model_validate(response(said(text)))
            steps.append(await server.step(StepRequest(response=turn), session))
        return opening, steps
    finally:
        session.end()


def play(
    *turns: str, answers: Answers = echo, row: dict[str, Any] | None = None, **settings: Any
) -> tuple[Opening, list[Step]]:
    async def episode() -> tuple[Opening, list[Step]]:
        async with (
            asyncio.timeout(20),
            speaking(answers) as url,
            started(url, **settings) as server,
        ):
            return await played(server, *turns, row=row)

    return asyncio.run(episode())


def test_the_models_words_are_the_action_and_the_environment_answers_them() -> None:
    opening, steps = play("hello", "<action> end </action>", row={"reset": {"seed": 3}}, **ECHO)

    assert opening.observation == "ready 3"
    assert [step.observation for step in steps] == ["hello", "end"]
    assert [step.reward for step in steps] == [0.5, pytest.approx(0.3)]
    assert [step.terminated for step in steps] == [False, True]


def test_without_fields_named_actions_are_written_and_observations_shown_as_json() -> None:
    opening, (step,) = play('So: <action>{"message": "hi"}</action>')

    assert opening.observation == '{"echoed_message":"ready None"}'
    assert step.observation == '{"echoed_message":"hi"}'
    assert step.reward == pytest.approx(0.2)


def test_turns_that_are_no_action_are_told_so_and_three_end_the_episode() -> None:
    turns = ("hm", "<action>[1]</action>", '<action>{"word": "x"}</action>')
    _, steps = play(*turns)

    assert "no <action>" in str(steps[0].observation)
    assert "not a JSON object" in str(steps[1].observation)
    assert "message: Field required" in str(steps[2].observation)
    assert [step.truncated for step in steps] == [False, False, True]
    assert [step.reward for step in steps] == [0.0, 0.0, 0.0]


def test_a_limit_on_steps_cuts_the_episode_off() -> None:
    _, steps = play("a", "b", max_episode_steps=2, **ECHO)

    assert [(step.truncated, step.terminated) for step in steps] == [(False, False), (True, False)]


@pytest.mark.parametrize(
    ("answer", "problem", "kind"),
    [
        (trouble("EXECUTION_ERROR", "broken"), "broken", EnvironmentFault),
        (trouble("CAPACITY_REACHED", "2 of 2"), ": 2 of 2", InfraError),
        (
            {"type": "observation", "data": {"reward": "much"}},
            "not an observation",
            EnvironmentFault,
        ),
        (None, "closed the connection", InfraError),
        ({}, "no answer within 0.2 s", InfraError),
    ],
)
def test_what_is_no_answer_of_the_environment_ends_the_rollout(
    answer: dict[str, Any] | None, problem: str, kind: type[CallError]
) -> None:
    def answers(message: dict[str, Any]) -> dict[str, Any] | None:
        return echo(message) if message["type"] == "reset" else answer

    with pytest.raises(kind, match=problem):
        play("hello", answers=answers, answer_timeout_s=0.2, **ECHO)


def test_a_server_that_is_not_there_is_said_before_the_first_row() -> None:
    async def start() -> None:
        async with started("http://127.0.0.1:9"):
            pass

    with pytest.raises(ConfigError, match="there is no OpenEnv server at"):
        asyncio.run(start())


@asynccontextmanager
async def real_server(python: str, program: Path) -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    number = str(listening.fileno())
    process = await asyncio.create_subprocess_exec(
        python, str(program), number, pass_fds=[listening.fileno()]
    )
    try:
        await _ready(url, process.wait())
        yield url
    finally:
        process.kill()
        await process.wait()
        listening.close()


async def _ready(url: str, ended: Awaitable[int]) -> None:
    """The socket listens already: the first request waits for the server to accept it."""

    async def ask() -> None:
        async with ClientSession() as client, client.get(f"{url}/health") as reply:
            reply.raise_for_status()

    tasks = {asyncio.ensure_future(ask()), asyncio.ensure_future(ended)}
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    assert all(task.result() is None for task in done)


@pytest.mark.slow
def test_a_real_openenv_server_is_played(tmp_path: Path) -> None:
    python = os.environ.get("OPENENV_PYTHON")
    if not python:
        pytest.skip("OPENENV_PYTHON names no Python with openenv-core")
    program = tmp_path / "echo.py"
    program.write_text(REAL_SERVER)
    row = example_rows("openenv")[2]

    async def episodes() -> None:
        async with (
            asyncio.timeout(50),
            real_server(python, program) as url,
            started(url, **ECHO) as server,
        ):
            one, other = await asyncio.gather(
                played(server, "hello", "you", "end", row=row), played(server, "hi")
            )
            assert one[0].observation == "ready 2"
            assert [step.reward for step in one[1]] == pytest.approx([0.5, 0.3, 0.3])
            assert [step.terminated for step in one[1]] == [False, False, True]
            assert other[0].observation == "ready None"
            assert other[1][0].observation == "hi"
            with pytest.raises(EnvironmentFault, match="broken"):
                await played(server, "break")
        async with (
            asyncio.timeout(50),
            real_server(python, program) as url,
            started(url) as server,
        ):
            _, steps = await played(server, '<action>{"word": 1}</action>')
            assert "message: Field required" in str(steps[0].observation)

    asyncio.run(episodes())
