"""Server processes whose event loops stand still: told, named, and ended where a call is overdue."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fleet_world import FLEET, X_ALONE, Project, eventually, exists

from palestra.config import ResolvedConfig
from palestra.errors import Outcome, RowIdentity, ServerDied
from palestra.fleet import (
    PROCESS,
    Fleet,
    FleetNews,
    HeadAddress,
    InstanceState,
    attach,
    head_server,
)
from palestra.transport import BlockedServer, CallContext, calling

pytestmark = [pytest.mark.slow, pytest.mark.alone]

HOLDS = """
import re
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class X(ResourcesServer):
    async def seed_session(self, body: dict) -> dict:
        if body.get("hold") == "seed":
            re.match(r"(a+)+$", "a" * 40 + "b")
        return {}

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        re.match(r"(a+)+$", "a" * 40 + "b")
        return self.reply(body, 1.0)
"""
ANY_PORT = "++head_server.port=0"
ROW = RowIdentity(task=3, rollout=1, attempt=2, agent="agent", run="run")


@asynccontextmanager
async def held(config: ResolvedConfig, *, limit_s: float) -> AsyncIterator[Fleet]:
    """A fleet whose server X never answers the `/seed_session` of one rollout."""
    loop = asyncio.get_running_loop()
    async with Fleet(config, default_placement=PROCESS) as fleet:
        with calling(CallContext(row=ROW, deadline=loop.time() + limit_s)):
            seeding = fleet.client.peer("x").notify("/seed_session", {"hold": "seed"})
            call = asyncio.ensure_future(seeding)
        yield fleet
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


def test_a_call_that_holds_its_server_ends_that_process_and_names_itself(project: Project) -> None:
    project.environment(HOLDS)

    async def run() -> ServerDied:
        async with held(project.load(X_ALONE), limit_s=1) as fleet:
            with pytest.raises(ServerDied) as caught:
                async with asyncio.timeout(20):
                    await fleet.watch()
            assert await eventually(lambda: fleet.instances["x"].state is InstanceState.DEAD)
        return caught.value

    died = asyncio.run(run())
    assert (died.server, died.function) == ("x", "seed_session")
    assert died.file.endswith("resources_servers/x/app.py")
    assert died.row == ROW
    assert died.failure is not None
    assert died.failure.outcome is Outcome.ENVIRONMENT_ERROR


def test_an_attached_command_learns_which_rollout_blocked_and_ended_its_fleet(
    project: Project,
) -> None:
    project.environment(HOLDS)

    async def learned(fleet: Fleet) -> FleetNews:
        async with head_server(fleet) as head:
            http = fleet.client.http
            news = FleetNews(await attach(HeadAddress("127.0.0.1", head.port), http), http)
            while not news.blocked:
                await asyncio.sleep(0.1)
                await news.ask()
            with pytest.raises(ServerDied):
                await fleet.watch()
        return news

    async def run() -> tuple[tuple[BlockedServer, ...], ServerDied]:
        async with asyncio.timeout(20), held(project.load(X_ALONE, ANY_PORT), limit_s=3) as fleet:
            news = await learned(fleet)
        with pytest.raises(ServerDied) as caught:
            await news.ask()
        return news.blocked, caught.value

    [blocked], died = asyncio.run(run())
    failure = blocked.failure_of(ROW)
    assert (blocked.server, failure and failure.outcome) == ("x", Outcome.ENVIRONMENT_ERROR)
    assert died.row == ROW


def test_a_server_that_stands_still_is_stuck_and_says_where(project: Project) -> None:
    project.environment(HOLDS)

    async def run() -> str:
        async with held(project.load(X_ALONE), limit_s=600) as fleet:
            assert await eventually(
                lambda: fleet.instances["x"].state is InstanceState.STUCK, within_s=30
            )
            return fleet.instances["x"].reason

    reason = asyncio.run(run())
    assert "x/seed_session of rollout 3:1" in reason.splitlines()[0]
    assert any("app.py" in line for line in reason.splitlines()[1:])


def test_a_stopped_server_is_stuck_until_it_goes_on(project: Project) -> None:
    async def run() -> tuple[str, list[str]]:
        async with Fleet(project.load(X_ALONE), default_placement=PROCESS) as fleet:
            instance = fleet.instances["x"]
            os.kill(instance.pid or 0, signal.SIGSTOP)
            assert await eventually(lambda: instance.state is InstanceState.STUCK, within_s=30)
            told = instance.reason, list(fleet.client.standing_still())
            os.kill(instance.pid or 0, signal.SIGCONT)
            assert await eventually(lambda: instance.state is InstanceState.HEALTHY)
            assert not fleet.failure
            return told

    reason, still = asyncio.run(run())
    assert reason.startswith("stopped by a signal (SIGSTOP)")
    assert still[0].startswith("x (process ")


def test_a_server_elsewhere_that_does_not_answer_is_stuck(project: Project) -> None:
    async def run() -> str:
        async with Fleet(project.load(X_ALONE), default_placement=PROCESS) as other:
            port = int(other.instances["x"].urls[0].rpartition(":")[2])
            block = "x.resources_servers.x"
            remote = (f"++{block}.placement=remote", f"++{block}.host=127.0.0.1")
            config = project.load(FLEET, *remote, f"++{block}.port={port}")
            async with Fleet(config) as fleet:
                os.kill(other.instances["x"].pid or 0, signal.SIGSTOP)
                assert await eventually(
                    lambda: fleet.instances["x"].state is InstanceState.STUCK, within_s=30
                )
                os.kill(other.instances["x"].pid or 0, signal.SIGCONT)
                return fleet.instances["x"].reason

    assert "no answer from http://127.0.0.1:" in asyncio.run(run())


PARENT = """
import asyncio
import sys
from palestra.config import load_config
from palestra.fleet import PROCESS, Fleet


async def main():
    async with Fleet(load_config(config_paths=sys.argv[1:]), default_placement=PROCESS) as fleet:
        print(fleet.instances["x"].pid, flush=True)
        await fleet.client.peer("x").notify("/seed_session", {"hold": "seed"})


asyncio.run(main())
"""


def test_a_server_that_a_call_holds_ends_with_the_parent_that_was_killed(project: Project) -> None:
    project.environment(HOLDS.replace("re.match", 'open("holds", "w").close() or re.match'))
    project.load(X_ALONE)
    command = [sys.executable, "-c", PARENT, "resources_servers/x/configs/x.yaml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert asyncio.run(eventually(Path("holds").exists))
        parent.kill()

    assert asyncio.run(eventually(lambda: not exists(server)))
