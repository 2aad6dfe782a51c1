"""Ctrl-C and SIGTERM on real collections, whatever is in flight."""

import json
import re
import signal
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection

import pytest
from cli_world import (
    AGENT,
    MULTI_STEP,
    OPENAI,
    TASKS,
    FakeEndpoint,
    Running,
    World,
    free_port,
    reply,
    until,
)

pytestmark = pytest.mark.slow

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]

ENVIRONMENT = """
import asyncio
import threading
import time
from http.client import HTTPConnection
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


@pytest.mark.parametrize("body", [SWALLOWING, BLOCKING], ids=["swallow", "spin"])
def test_work_that_does_not_stop_is_named(world: World, fake: FakeEndpoint, body: str) -> None:
    running = verifying(world, fake, body)

    stop(running, signal.SIGINT)

    assert re.search(r"did not stop within 2 s \(\d in X\.verify \(app\.py:\d+\)\)", running.text())


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


# Commands that keep servers running

UNSTARTED = ENVIRONMENT.format(body="pass")
IMPORTING = f"{UNSTARTED}\nPath('in').touch()\ntime.sleep(60)\n"
STARTING = f"""{UNSTARTED}
    async def start(self) -> None:
        Path("in").touch()
        await asyncio.sleep(60)
"""
MANY_FUNCTIONS = f"""{UNSTARTED}
    async def start(self) -> None:
        for number in range(20_000):
            exec(f"def f{{number}}(): pass\\nf{{number}}()")
        Path("in").touch()
"""
ASLEEP = "(Path('in').touch(), await asyncio.sleep(60))"


def serving(
    world: World, app: str, placement: str, port: int = 0, overrides: Sequence[str] = ()
) -> Running:
    """A fleet of one environment."""
    (world.folder / "resources_servers/x").mkdir(parents=True)
    world.write("resources_servers/x/app.py", app)
    setting = json.dumps({"placement": placement, "port": port or free_port()})
    world.write("x.yaml", f"x: {{resources_servers: {{x: {setting}}}}}")
    other = "example_multi_step_resources_server"
    return world.start(
        *("palestra", "run", "-c", "x.yaml", "-c", MULTI_STEP, world.head),
        *(f"~{AGENT}", f"++{other}.resources_servers.example_multi_step.placement=process"),
        *overrides,
    )


def assert_stops_in_order(running: Running) -> None:
    ended, _ = stop(running, signal.SIGINT)
    text = running.text()
    assert ended == 0, text
    assert "did not stop" not in text
    assert "Traceback" not in text
    assert text.endswith("stopped\n")


@pytest.mark.parametrize("app", [IMPORTING, STARTING], ids=["import", "start"])
def test_ctrl_c_stops_servers_that_are_still_starting(world: World, app: str) -> None:
    running = serving(world, app, "process")
    until((world.folder / "in").exists)

    assert_stops_in_order(running)


@pytest.mark.parametrize("placement", ["process", "embedded"])
@pytest.mark.parametrize("body", [ASLEEP, THREAD], ids=["asleep", "thread"])
def test_ctrl_c_stops_servers_with_a_request_in_flight(
    world: World, body: str, placement: str
) -> None:
    port = free_port()
    running = serving(world, ENVIRONMENT.format(body=body), placement, port)
    running.until("stop with Ctrl-C")
    caller = HTTPConnection("127.0.0.1", port)
    row = {"responses_create_params": {"input": "1"}, "response": reply()}
    caller.request("POST", "/verify", json.dumps(row), {"content-type": "application/json"})
    until((world.folder / "in").exists)

    assert_stops_in_order(running)
    caller.close()


def test_ctrl_c_waits_for_the_profile_of_a_server(world: World) -> None:
    profiled = ("+profiling_enabled=true", "+profiling_results_dirpath=profiles")
    running = serving(world, MANY_FUNCTIONS, "process", overrides=profiled)
    running.until("stop with Ctrl-C")

    assert_stops_in_order(running)
    assert (world.folder / "profiles/x.svg").exists()
