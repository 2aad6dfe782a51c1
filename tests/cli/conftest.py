"""A folder to run commands in, and endpoints to run them against."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import KEY, FakeEndpoint, World, endpoint, free_port, without_engine

from forked_commands import ForkedCommands
from installed_wheel import Installation
from palestra.responses_api_models.local_model import find_weights
from palestra.responses_api_models.local_model.engine import READY, EngineOrder
from palestra.responses_api_models.local_model.running import ENGINE


@pytest.fixture
def world(tmp_path: Path, commands: ForkedCommands | None) -> Iterator[World]:
    """An empty folder; whatever a test starts in it is ended."""
    made = World(tmp_path / "work", tmp_path / "run", free_port(), commands=commands)
    made.folder.mkdir()
    made.run_dir.mkdir()
    yield made
    for running in made.started:
        running.end()
        # pytest shows it of a test that failed
        sys.stdout.write(f"{running.log.name}:\n{running.text()}\n")


@pytest.fixture
def installed(world: World, installation: Installation) -> World:
    """That folder where the wheel alone is installed, which its commands leave as it is."""
    world.environment |= installation.environment
    world.scripts = installation.scripts
    world.commands = None
    return world


@pytest.fixture
def fake() -> Iterator[FakeEndpoint]:
    """An endpoint that answers every request with one message."""
    with endpoint(FakeEndpoint()) as made:
        yield made


@pytest.fixture(scope="session")
def engine_url() -> Iterator[str]:
    """The base URL of a real llama.cpp with the smallest model; KEY is its key."""
    if reason := without_engine():
        pytest.skip(reason)
    order = EngineOrder(
        model_path=str(find_weights(None)),
        model_name="tiny",
        api_key=KEY,
        # The longest prompt of the example tasks takes 450 tokens; what is left bounds an answer.
        context_tokens=640,
        slots=4,
        threads=2,
        connections=16,
        parent_pid=os.getpid(),
    )
    with subprocess.Popen(
        [sys.executable, "-P", str(ENGINE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(order.as_line() + b"\n")
        process.stdin.flush()
        limit = threading.Timer(50, process.kill)
        limit.start()
        line = process.stdout.readline().decode()
        limit.cancel()
        assert line.startswith(READY), line
        yield line.removeprefix(READY).strip() + "/v1"
        process.stdin.close()
        process.wait(timeout=10)


@pytest.fixture
def served(world: World, engine_url: str) -> World:
    """A world whose env.yaml points to the real engine."""
    policy = {
        "policy_base_url": engine_url,
        "policy_api_key": KEY,
        "policy_model_name": "tiny",
    }
    world.write("env.yaml", "".join(f"{k}: {json.dumps(v)}\n" for k, v in policy.items()))
    return world
