"""`--json-events` of whole commands."""

import json

import pytest
from cli_world import AGENT, KEY, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, World

pytestmark = pytest.mark.slow


def collect(world: World, fake: FakeEndpoint, *arguments: str) -> list[str]:
    return [
        *("collect", "--config", MULTI_STEP, "--config", OPENAI, world.head, *fake.policy),
        *("--agent", AGENT, "--input", TASKS, "--output", "rollouts.jsonl", *arguments),
    ]


def test_a_run_is_told_from_start_to_end(world: World, fake: FakeEndpoint) -> None:
    done = world.run("palestra", *collect(world, fake, "--json-events", "events.jsonl"))

    assert done.code == 0, done.err
    events = world.rows("events.jsonl")
    names = [event["event"] for event in events]
    assert (names[0], names[-1]) == ("run_started", "run_ended")
    assert names.count("rollout_ended") == 5
    assert (events[0]["requested"], events[0]["remaining"], events[0]["tasks"]) == (5, 5, 5)
    assert (events[-1]["exit"], events[-1]["scored"], events[-1]["not_run"]) == (0, 5, 0)
    assert KEY not in (world.folder / "events.jsonl").read_text()


def test_standard_output_can_be_the_machines(world: World, fake: FakeEndpoint) -> None:
    done = world.run("palestra", *collect(world, fake, "--json-events", "-"))

    assert [json.loads(line)["event"] for line in done.out.splitlines()][-1] == "run_ended"
    assert "requested 5 = scored 5" in done.err


def test_events_that_cannot_be_written_are_refused_before_anything_runs(
    world: World, fake: FakeEndpoint
) -> None:
    done = world.run("palestra", *collect(world, fake, "--json-events", "no/where.jsonl"))

    assert "--json-events: cannot write to 'no/where.jsonl'" in done.refused()
    assert fake.asked == 0
    assert world.files() == []


def test_a_full_disk_for_events_is_no_end_of_the_run(world: World, fake: FakeEndpoint) -> None:
    done = world.run("palestra", *collect(world, fake, "--json-events", "/dev/full"))

    assert done.code == 0, done.err
    assert "warning: --json-events: No space left on device" in done.err


def test_a_run_that_ends_with_an_error_tells_that_too(world: World, fake: FakeEndpoint) -> None:
    fake.status, fake.body = 401, {"error": {"message": "wrong key", "type": "auth"}}
    done = world.run("palestra", *collect(world, fake, "--json-events", "events.jsonl"))

    assert done.code != 0
    ended = world.rows("events.jsonl")[-1]
    assert (ended["event"], ended["exit"]) == ("run_ended", done.code)
    assert "wrong key" in ended["message"]
