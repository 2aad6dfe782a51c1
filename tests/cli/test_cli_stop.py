"""Ctrl-C and SIGTERM on real collections, whatever is in flight."""

import json
import signal
import threading
import time

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, Running, World, until

pytestmark = pytest.mark.slow

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]

ENVIRONMENT = """
import asyncio
import threading
import time
from pathlib import Path

from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class X(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        if body.responses_create_params.input == "0":
            return self.reply(body, 1.0)
        {body}
        return self.reply(body, 0.0)
"""
FLEET = """
x:
  resources_servers:
    x: {}
x_agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: x}
      model_server: {type: responses_api_models, name: policy_model}
"""
THREAD = "await asyncio.to_thread(lambda: (Path('in').touch(), threading.Event().wait(60)))"
SWALLOWING = """while True:
            Path("in").touch()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass"""
BLOCKING = """await asyncio.sleep(0.3)
        Path("in").touch()
        until = time.monotonic() + 60
        while time.monotonic() < until:
            pass"""


@pytest.fixture
def hanging(fake: FakeEndpoint) -> FakeEndpoint:
    """An endpoint that answers two requests, and then none."""
    stuck = threading.Event()
    fake.before_answer = lambda asked: asked <= 2 or stuck.wait(30)
    return fake


def collect(world: World, fake: FakeEndpoint, *arguments: str) -> Running:
    return world.start(
        *("palestra", "collect", "--config", MULTI_STEP, "--config", OPENAI, world.head),
        *(*fake.policy, "--agent", AGENT, "--input", TASKS, "--output", "rollouts.jsonl"),
        *arguments,
    )


def project(world: World, fake: FakeEndpoint, body: str) -> list[str]:
    """The command that runs an environment whose verifier does `body`, but for the first task."""
    (world.folder / "resources_servers/x").mkdir(parents=True)
    world.write("resources_servers/x/app.py", ENVIRONMENT.format(body=body))
    world.write("x.yaml", FLEET)
    tasks = [{"responses_create_params": {"input": str(number)}} for number in range(8)]
    world.write("tasks.jsonl", "".join(json.dumps(task) + "\n" for task in tasks))
    return [
        *("collect", "--config", "x.yaml", "--config", OPENAI, world.head, *fake.policy),
        *("--agent", "x_agent", "--input", "tasks.jsonl", "--output", "rollouts.jsonl"),
        *("--json-events", "events.jsonl"),
    ]


def verifying(world: World, fake: FakeEndpoint, body: str) -> Running:
    """That command, once the verifier does `body`."""
    running = world.start("palestra", *project(world, fake, body))
    until((world.folder / "in").exists)
    until(lambda: bool(world.rows("rollouts.jsonl")))
    return running


def stop(running: Running, number: signal.Signals) -> tuple[int, float]:
    """Its exit code, and how long it took."""
    asked = time.monotonic()
    running.process.send_signal(number)
    return running.ended(timeout_s=20), time.monotonic() - asked


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_thousand_in_flight_are_stopped_in_time_and_accounted_for(
    world: World, hanging: FakeEndpoint, number: signal.Signals, code: int
) -> None:
    running = collect(world, hanging, "--repeats", "201", "--progress", "plain")
    running.until("1003 in flight")

    ended, took_s = stop(running, number)
    text = running.text()
    assert ended == code, text
    assert took_s < 5
    assert "requested 1005 = scored 2 + failed 0 + not run 1003" in text
    assert "--output rollouts.jsonl --resume" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("body", [THREAD, SWALLOWING, BLOCKING], ids=["thread", "swallow", "spin"])
def test_a_verifier_that_will_not_be_cancelled_holds_nobody_up(
    world: World, fake: FakeEndpoint, body: str
) -> None:
    running = verifying(world, fake, body)

    ended, took_s = stop(running, signal.SIGINT)
    text = running.text()
    assert ended == 130, text
    assert took_s < 5
    assert "requested 8 = scored 1 + failed 0 + not run 7" in text
    assert "--output rollouts.jsonl --resume" in text
    assert "Traceback" not in text
    assert world.rows("events.jsonl")[-1]["exit"] == 130
    assert len(world.rows("rollouts.jsonl")) == 1


@pytest.mark.parametrize(
    ("number", "code", "later_s"), [(signal.SIGINT, 130, 0.2), (signal.SIGTERM, 143, 1.2)]
)
def test_the_second_signal_ends_it_at_once(
    world: World, fake: FakeEndpoint, number: signal.Signals, code: int, later_s: float
) -> None:
    running = verifying(world, fake, SWALLOWING)
    running.process.send_signal(signal.SIGTERM)
    time.sleep(later_s)  # so that the two are not taken for one

    ended, took_s = stop(running, number)
    assert ended == code
    assert took_s < 1


def test_a_sigterm_that_comes_twice_within_a_second_stops_in_order(
    world: World, hanging: FakeEndpoint
) -> None:
    running = collect(world, hanging, "--repeats", "2", "--progress", "plain")
    running.until("8 in flight")
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # signals that wait together are one

    ended, _ = stop(running, signal.SIGTERM)
    assert ended == 143
    assert "requested 10 = scored 2 + failed 0 + not run 8" in running.text()


def test_a_thread_that_never_ends_does_not_keep_a_run_that_is_over(
    world: World, fake: FakeEndpoint
) -> None:
    done = world.run("palestra", *project(world, fake, THREAD), "--rollout-timeout", "1")

    assert done.code == 1
    assert "requested 8 = scored 1 + failed 7 (timeout 7)" in done.out
