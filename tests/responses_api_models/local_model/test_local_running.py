import asyncio
import os
import signal
import subprocess
import sys
from typing import NoReturn

import pytest
from engine_stand_ins import order, running, start

from palestra.errors import ConfigError, ServerDied
from palestra.responses_api_models.local_model import engine as engine_module
from palestra.responses_api_models.local_model.running import (
    ENGINE,
    EngineDied,
    RunningEngine,
    require_engine,
)


async def forever() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError


def test_an_engine_is_ready_when_it_says_where_it_listens() -> None:
    async def scenario() -> str:
        async with running() as engine:
            return engine.url

    assert asyncio.run(scenario()) == "http://127.0.0.1:1"


def test_an_engine_that_ends_before_it_is_ready_is_quoted() -> None:
    program = "print('failed to load model'); raise SystemExit(7)"

    with pytest.raises(ServerDied, match=r"exit code 7 before it was ready(.|\n)*failed to load"):
        asyncio.run(start(program))


def test_an_engine_that_is_not_ready_in_time_is_stopped() -> None:
    with pytest.raises(ServerDied, match="not ready within 0 s") as caught:
        asyncio.run(start("import sys; sys.stdin.read()", timeout_s=0.3))

    assert "start_timeout_s" in caught.value.hint


def test_a_call_returns_what_it_was_answered() -> None:
    async def scenario() -> str:
        async with running() as engine:
            return await engine.call(lambda: asyncio.sleep(0, "answer"))

    assert asyncio.run(scenario()) == "answer"


def test_a_call_in_flight_fails_at_once_when_the_engine_is_killed() -> None:
    async def scenario() -> None:
        async with running() as engine:
            call = asyncio.create_task(engine.call(forever))
            await asyncio.sleep(0)
            os.kill(engine.pid, signal.SIGKILL)
            await call

    with pytest.raises(EngineDied, match=r"ended with signal SIGKILL(.|\n)*READY") as caught:
        asyncio.run(scenario())
    assert not caught.value.retriable


def test_later_calls_are_not_even_sent() -> None:
    sent = []

    async def scenario() -> None:
        async with running() as engine:
            os.kill(engine.pid, signal.SIGTERM)
            with pytest.raises(EngineDied, match="SIGTERM"):
                await engine.call(forever)
            await engine.call(lambda: asyncio.sleep(0, sent.append(1)))

    with pytest.raises(EngineDied):
        asyncio.run(scenario())
    assert not sent


def test_a_cancelled_call_is_cancelled_below_as_well() -> None:
    ended = []

    async def noticing() -> None:
        try:
            await forever()
        finally:
            ended.append(True)

    async def scenario() -> None:
        async with running() as engine:
            call = asyncio.create_task(engine.call(noticing))
            await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    asyncio.run(scenario())
    assert ended == [True]


def test_calls_after_a_stop_say_so_and_stopping_twice_does_no_harm() -> None:
    async def scenario() -> None:
        async with running() as engine:
            await engine.stop()
            await engine.call(forever)

    with pytest.raises(EngineDied, match="the model was stopped"):
        asyncio.run(scenario())


def test_a_missing_llama_cpp_names_what_to_install() -> None:
    with pytest.raises(ConfigError, match="no_such_engine, which is not installed") as caught:
        require_engine("no_such_engine")

    assert caught.value.hint == "pip install 'palestra[local]'"


def test_the_engine_without_an_order_ends_by_itself() -> None:
    ended = subprocess.run([sys.executable, str(ENGINE)], input=b"", check=False, timeout=20)

    assert ended.returncode == 0


def test_the_engine_names_what_to_install_when_llama_cpp_is_missing() -> None:
    # -S leaves out the installed packages, xllamacpp among them.
    command = (sys.executable, "-S", "-P", str(ENGINE))

    with pytest.raises(ServerDied, match=r"exit code 3(.|\n)*palestra\[local\]"):
        asyncio.run(RunningEngine.start("p", order(), timeout_s=20, command=command))
    assert engine_module.NO_ENGINE == 3


def test_the_engine_ends_when_its_parent_was_gone_before_it_looked() -> None:
    line = order(parent_pid=1).as_line() + b"\n"

    ended = subprocess.run([sys.executable, str(ENGINE)], input=line, check=False, timeout=20)

    assert ended.returncode == 0
