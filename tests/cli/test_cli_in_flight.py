"""A run that does not move, asked from outside what it waits for."""

import copy
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, Running, World, until

from palestra.cli.rollouts_status import with_servers
from palestra.engine import Accounting, Job
from palestra.rollouts import (
    Progress,
    announced,
    announcements,
    ask_collection,
    in_flight_lines,
)
from palestra.schema import RolloutKey


@pytest.fixture
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """A collection with one rollout that waits for a judge."""
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path))
    made = Progress(Accounting(3))
    flight = Job(key=RolloutKey(4, 1), agent="my_agent", attempt=2)
    flight.now("/verify", "judge /v1/responses")
    made.in_flight[RolloutKey(4, 1)] = flight
    return made


def test_a_collection_tells_what_its_rollouts_await(progress: Progress, tmp_path: Path) -> None:
    with announced(tmp_path / "out.jsonl", progress):
        told = ask_collection(announcements()[0])

    assert told is not None
    one = told["in_flight"][0]
    assert (one["task"], one["rollout"], one["attempt"], one["agent"]) == (4, 1, 2, "my_agent")
    assert (one["phase"], one["awaiting"]) == ("/verify", "judge /v1/responses")
    assert told["requested"] == 3


def test_a_collection_that_has_ended_cannot_be_asked(progress: Progress, tmp_path: Path) -> None:
    with announced(tmp_path / "out.jsonl", progress):
        where = announcements()[0]

    assert announcements() == []
    assert ask_collection(where) is None


def test_who_does_not_know_the_nonce_is_told_nothing(progress: Progress, tmp_path: Path) -> None:
    with announced(tmp_path / "out.jsonl", progress):
        where = announcements()[0]
        with socket.create_connection(("127.0.0.1", where.port), timeout=5) as stranger:
            stranger.sendall(b"x" * len(where.nonce))
            assert stranger.recv(1) == b""
        file = next((tmp_path / "collections").iterdir())
        assert file.stat().st_mode & 0o077 == 0


def test_a_dump_has_a_line_for_each_rollout(progress: Progress) -> None:
    assert [line.split(",")[0] for line in in_flight_lines(progress)] == [
        "4:1 attempt 2 of my_agent"
    ]


def test_servers_that_two_runs_share_are_not_confused(progress: Progress, tmp_path: Path) -> None:
    with announced(tmp_path / "out.jsonl", progress, run="mine"):
        told = ask_collection(announcements()[0])
    assert told is not None
    call = {"server": "judge", "path": "/v1/responses", "phase": "", "age_s": 1, "awaiting_s": 1}

    def awaiting(run: str) -> str:
        served = {**call, "awaiting": f"the endpoint of {run}", "row": [run, 4, 1, 2]}
        found = with_servers(copy.deepcopy(told), [served])
        return str(found["in_flight"][0]["awaiting"])

    assert awaiting("mine") == "judge/v1/responses: the endpoint of mine"
    assert awaiting("another") == "judge /v1/responses"


@pytest.fixture
def hanging(fake: FakeEndpoint) -> Iterator[FakeEndpoint]:
    """An endpoint that answers nothing."""
    stuck = threading.Event()
    fake.before_answer = lambda _asked: stuck.wait(50)
    yield fake
    stuck.set()


def stuck_run(world: World, fake: FakeEndpoint) -> Running:
    run = world.start(
        *("palestra", "collect", "--config", MULTI_STEP, "--config", OPENAI, world.head),
        *(*fake.policy, "--agent", AGENT, "--input", TASKS, "--output", "out.jsonl"),
    )
    until(lambda: fake.asked >= 5, timeout_s=50)
    return run


@pytest.mark.slow
def test_a_stuck_run_is_listed_by_phase_awaited_thing_and_age(
    world: World, hanging: FakeEndpoint
) -> None:
    run = stuck_run(world, hanging)

    table = world.run("palestra", "status", "--rollouts", world.head)
    told = json.loads(world.run("palestra", "status", "--rollouts", "--json", world.head).out)

    assert table.code == 0, table.err
    assert "0 scored and 0 failed of 5" in table.out
    assert "5 in flight" in table.out
    assert "the endpoint" in table.out
    flights = told["collections"][0]["in_flight"]
    assert {(f["agent"], f["phase"], "endpoint" in f["awaiting"]) for f in flights} == {
        (AGENT, "model server", True)
    }
    assert all(f["age_s"] >= f["awaiting_s"] > 0 for f in flights)
    assert run.process.poll() is None


@pytest.mark.slow
def test_sigusr1_dumps_threads_tasks_and_rollouts_and_stops_nothing(
    world: World, hanging: FakeEndpoint
) -> None:
    run = stuck_run(world, hanging)

    os.kill(run.process.pid, signal.SIGUSR1)
    run.until("--- end ---")

    said = run.text()
    assert "--- in flight: 5 ---" in said
    assert "0:0 attempt 1 of " + AGENT in said
    assert "Collector.attempt" in said
    assert "most recent call first" in said
    assert run.process.poll() is None


@pytest.mark.slow
def test_rollouts_in_a_fleet_of_processes_are_followed_to_the_innermost_server(
    world: World, hanging: FakeEndpoint
) -> None:
    fleet = world.start(
        *("palestra", "run", "--config", MULTI_STEP, "--config", OPENAI, world.head),
        *hanging.policy,
    )
    fleet.until("servers ready!")
    run = world.start(
        *("palestra", "collect", world.head, "--agent", AGENT, "--input", TASKS),
        *("--output", "out.jsonl"),
    )
    until(lambda: hanging.asked >= 5, timeout_s=50)

    told = json.loads(world.run("palestra", "status", "--rollouts", "--json", world.head).out)
    servers = json.loads(world.run("palestra", "status", "--json", world.head).out)
    model = next(one for one in servers if one["name"] == "policy_model")
    os.kill(model["pid"], signal.SIGUSR1)
    fleet.until("--- end ---")

    awaited = {f["awaiting"] for f in told["collections"][0]["in_flight"]}
    assert all(one.startswith("policy_model/v1/responses: ") for one in awaited)
    assert "policy_model/v1/responses for [" in fleet.text()
    assert run.process.poll() is None


def test_without_a_run_the_answer_is_no(world: World) -> None:
    done = world.run("palestra", "status", "--rollouts", world.head)

    assert (done.code, done.out) == (1, "No collection of yours is running on this machine.\n")
