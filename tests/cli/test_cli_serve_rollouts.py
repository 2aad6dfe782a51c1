"""`palestra serve-rollouts`: a real service for a real trainer, what it refuses, and its end."""

import asyncio
import json
import os
import re
import signal
from typing import Any

import pytest
from cli_world import OPENAI, FakeEndpoint, Running, World

from palestra.config import PACKAGE_ROOT
from palestra.training import (
    Attempts,
    ClientSettings,
    Completed,
    FailureClass,
    OnViolation,
    RemoteRolloutClient,
    RolloutRequest,
    SyncRolloutClient,
)

MCQA = "resources_servers/mcqa/configs/mcqa.yaml"
TASKS = PACKAGE_ROOT / "resources_servers/mcqa/data/example.jsonl"


def requests(count: int) -> list[RolloutRequest]:
    row = json.loads(TASKS.read_text().splitlines()[0])
    return [RolloutRequest(row=row, task_id=number) for number in range(count)]


def served(world: World, fake: FakeEndpoint, *flags: str) -> tuple[Running, str]:
    """A running service and its address."""
    running = world.start(
        *("palestra", "serve-rollouts", "-c", MCQA, "-c", OPENAI, "--no-token-ids", "--port", "0"),
        *(*flags, world.head, *fake.policy),
    )
    running.until("rollout service ready")
    found = re.search(r"http://127\.0\.0\.1:\d+$", running.text(), re.MULTILINE)
    assert found is not None, running.text()
    return running, found[0]


def gathered(url: str, count: int) -> list[Any]:
    with SyncRolloutClient(lambda: RemoteRolloutClient(url)) as client:
        return client.submit(requests(count)).gather()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_trainer_gets_its_rollouts_and_a_signal_ends_the_service_in_order(
    world: World, fake: FakeEndpoint, number: signal.Signals, code: int
) -> None:
    running, url = served(world, fake)
    outcomes = gathered(url, 8)
    servers = running.children()
    os.kill(running.process.pid, number)

    assert running.ended(timeout_s=20) == code
    assert all(isinstance(outcome, Completed) for outcome in outcomes)
    assert servers
    assert "Traceback" not in running.text()


@pytest.mark.slow
def test_a_fleet_that_runs_can_be_served(world: World, fake: FakeEndpoint) -> None:
    fleet = world.start("palestra", "run", "-c", MCQA, "-c", OPENAI, world.head, *fake.policy)
    fleet.until("servers ready!")
    running = world.start(
        *("palestra", "serve-rollouts", "--attached", "--no-token-ids", "--port", "0", world.head)
    )
    running.until("rollout service ready")
    found = re.search(r"http://127\.0\.0\.1:\d+$", running.text(), re.MULTILINE)
    assert found is not None

    assert len(gathered(found[0], 4)) == 4


async def settings_of(url: str) -> ClientSettings:
    async with RemoteRolloutClient(url) as client:
        return client.settings


@pytest.mark.slow
def test_the_flags_are_the_settings_of_every_trainers_client(
    world: World, fake: FakeEndpoint
) -> None:
    flags = ["--on-invalid-logprobs", "mask", "--on-discontinuity", "split", "--nan-retries", "2"]
    _, url = served(world, fake, *flags, "--attempts", "timeout=5", "--attempts", "data_error=2")

    settings = asyncio.run(settings_of(url))

    assert settings.on_invalid_logprobs is OnViolation.MASK
    assert settings.on_discontinuity is OnViolation.SPLIT
    most = Attempts().most | {FailureClass.TIMEOUT: 5, FailureClass.DATA_ERROR: 2}
    assert settings.attempts == Attempts(most=most, nan_retries=2)


def test_beyond_this_machine_a_token_is_required(world: World) -> None:
    done = world.run("palestra", "serve-rollouts", "-c", MCQA, "--host", "0.0.0.0")

    assert "without a token" in done.refused()
    assert "PALESTRA_ROLLOUTS_TOKEN" in done.err


def test_without_servers_there_is_nothing_to_serve(world: World) -> None:
    done = world.run("palestra", "serve-rollouts", world.head)

    assert "no server instance is configured" in done.refused()
