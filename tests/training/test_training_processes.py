"""Real processes that die under a batch, or are told to stop."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from process_world import ENVIRONMENT, HOLDING, config, pid_of, row, write_project

from palestra.config import ResolvedConfig
from palestra.errors import ServerDied
from palestra.fleet import EMBEDDED, PROCESS, Fleet, HeadAddress, head_server
from palestra.training import (
    Attempts,
    ClientSettings,
    Failed,
    IncompleteRollouts,
    Key,
    RolloutClient,
    attached,
)
from palestra.training.memory import gone

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    return tmp_path


@contextlib.asynccontextmanager
async def training(
    found: ResolvedConfig, **settings: Any
) -> AsyncIterator[tuple[RolloutClient, Fleet]]:
    fleet = Fleet(found, default_placement=PROCESS)
    given = ClientSettings(memory_reserve=0.0, **settings)
    async with RolloutClient(fleet, given) as client:
        yield client, fleet


async def test_an_agent_killed_after_k_of_n_rows_is_told_within_seconds(project: Path) -> None:
    async with training(config(project), in_flight=24) as (client, fleet):
        handle = client.submit([row(number, "wait" if number >= 5 else "") for number in range(20)])
        for _ in range(5):
            assert (await handle.next()).reward == 1.0  # type: ignore[union-attr]  # completed
        pid = pid_of(fleet, "agent")
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        with pytest.raises(IncompleteRollouts) as found:
            await handle.next()
        told_after_s = time.monotonic() - killed

    error = found.value
    assert told_after_s < 10
    assert (error.requested, error.received) == (20, 5)
    assert error.missing == tuple(Key(number, 0) for number in range(5, 20))
    assert (error.cause.process, error.cause.pid, error.cause.signal) == ("agent", pid, "SIGKILL")
    assert "lower in_flight (now 24)" in error.cause.setting
    assert "a rollout waits" in str(error)
    assert handle.summary().adds_up
    assert all(gone(instance.pid) for instance in fleet.instances.values() if instance.pid)


async def test_a_rollout_that_meets_a_death_before_the_watch_tells_its_cause(
    project: Path,
) -> None:
    async with training(config(project), in_flight=24) as (client, fleet):
        handle = client.submit([row(number, "wait") for number in range(3)])
        await asyncio.sleep(0.5)
        await client._running.watch.stop()
        pid = pid_of(fleet, "agent")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(IncompleteRollouts) as found:
            await handle.gather()

    assert (found.value.cause.process, found.value.cause.pid) == ("agent", pid)
    assert "lower in_flight (now 24)" in found.value.cause.setting


async def test_servers_of_a_configuration_live_in_processes_of_their_own(project: Path) -> None:
    async with RolloutClient(config(project), ClientSettings(memory_reserve=0.0)) as client:
        await client.submit([row(0)]).gather()
        states = (await client.health()).servers
        pids = client._running.watch.pids

    assert len(set(pids)) == len(states) == 3
    assert os.getpid() not in pids


async def test_a_fleet_that_names_no_placement_stays_out_of_the_trainers_process(
    project: Path,
) -> None:
    fleet = Fleet(config(project))
    async with RolloutClient(fleet, ClientSettings(memory_reserve=0.0)):
        placements = {instance.placement for instance in fleet.instances.values()}

    assert placements == {PROCESS}


async def test_an_embedded_verifier_that_blocks_the_trainer_is_named(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embedded = Fleet(config(project), default_placement=EMBEDDED)
    async with RolloutClient(embedded, ClientSettings(memory_reserve=0.0)) as client:
        await client.submit([row(0, "sleep")]).gather()
        await asyncio.sleep(0)  # for the beat that is late

    assert any("x blocked the event loop" in record.message for record in caplog.records)


async def test_a_verifier_that_holds_the_lock_leaves_the_trainer_its_loop(project: Path) -> None:
    settings = ClientSettings(memory_reserve=0.0, rollout_timeout_s=3.0, attempts=Attempts(most={}))
    async with RolloutClient(config(project), settings) as client:
        async with asyncio.timeout(30):
            with pytest.raises(IncompleteRollouts) as raised:
                await client.submit([row(0), row(1, "hold the lock")]).gather()

    assert raised.value.failures == {"verifier_error": 1}
    assert [outcome.task_id for outcome in raised.value.completed] == [0]


async def test_a_rollout_that_another_one_keeps_waiting_blames_the_server_that_is_held(
    project: Path,
) -> None:
    settings = {"on_incomplete": "mask", "min_fraction": 0.0, "attempts": Attempts(most={})}
    async with training(config(project), rollout_timeout_s=3.0, **settings) as (client, fleet):
        holding = client.submit([row(0, "hold the lock")])
        async with asyncio.timeout(20):
            while not Path("holding").exists():  # noqa: ASYNC110, ASYNC240  # another process
                await asyncio.sleep(0.05)
            waiting = await client.submit([row(1)]).next()
        pid = pid_of(fleet, "x")
        await holding.aclose()

    assert isinstance(waiting, Failed)
    assert waiting.message.startswith(f"server x (process {pid}) answered nothing within 1 s")
    assert waiting.evidence.hint.startswith("look at x: an `async def` that blocks")


@pytest.mark.alone
async def test_a_plain_verifier_that_hangs_costs_its_own_rollout_alone(project: Path) -> None:
    app = project / "resources_servers/x/app.py"
    app.write_text(ENVIRONMENT.replace("async def verify", "def verify"))
    settings = {"on_incomplete": {"verifier_error": "mask"}, "min_fraction": 0.0}
    async with training(config(project), rollout_timeout_s=3.0, **settings) as (client, _):
        handle = client.submit([row(n, "hold the lock" if n == 2 else "") for n in range(4)])
        async with asyncio.timeout(3 + 5):
            outcomes = await handle.gather()

    failure = outcomes.pop(2)
    assert isinstance(failure, Failed)
    assert (failure.failure, failure.attempts) == ("verifier_error", 1)
    assert f"{app}:" in failure.message
    assert [outcome.reward for outcome in outcomes] == [1.0] * 3  # type: ignore[union-attr]  # completed


@pytest.mark.alone
async def test_a_verifier_that_holds_its_server_is_named_with_its_row(project: Path) -> None:
    async with training(config(project), rollout_timeout_s=3.0, in_flight=1) as (client, _):
        handle = client.submit([row(0), row(1, "hold the lock"), row(2)])
        async with asyncio.timeout(3 + 5):
            with pytest.raises(IncompleteRollouts) as raised:
                await handle.gather()

    told = str(raised.value)
    assert raised.value.missing == (Key(1, 0), Key(2, 0))
    assert "rollout 1:0 failed (verifier_error" in told
    line = 1 + ENVIRONMENT.splitlines().index(HOLDING)
    assert f"verify, {project}/resources_servers/x/app.py:{line}" in told


@pytest.mark.alone
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("blocked", "do"), [("agent", ""), ("x", "hold the lock")])
async def test_a_server_that_does_not_go_on_ends_its_batch_with_its_name(
    project: Path, blocked: str, do: str
) -> None:
    async with training(config(project), stuck_patience_s=0.0, on_incomplete="mask") as (
        client,
        fleet,
    ):
        handle = client.submit([row(0, do), *(row(number, "wait") for number in range(1, 4))])
        if blocked == "agent":
            os.kill(pid_of(fleet, "agent"), signal.SIGSTOP)
        async with asyncio.timeout(60):
            with pytest.raises(IncompleteRollouts) as raised:
                await handle.gather()
        health = await client.health()
        pid = pid_of(fleet, blocked)

    cause = raised.value.cause
    assert (cause.process, cause.pid) == (blocked, pid)
    assert ("kill -CONT" in cause.setting) is (blocked == "agent")
    assert cause.waiting == tuple(Key(number, 0) for number in range(4))
    assert (health.ok, blocked in health.reason) == (False, True)


@pytest.mark.alone
@pytest.mark.parametrize("policy", ["mask", "return_partial", "drop_group"])
async def test_a_killed_agent_raises_under_every_policy_within_seconds(
    project: Path, policy: str
) -> None:
    async with training(config(project), on_incomplete=policy) as (client, fleet):
        handle = client.submit([row(number) for number in range(800)])
        await handle.next()
        os.kill(pid_of(fleet, "agent"), signal.SIGKILL)
        async with asyncio.timeout(10):
            with pytest.raises(IncompleteRollouts) as raised:
                _ = [outcome async for outcome in handle]

    assert (raised.value.requested, raised.value.cause.process) == (800, "agent")
    assert handle.summary().adds_up


async def test_an_agent_that_its_own_limit_stops_is_out_of_memory(project: Path) -> None:
    async with training(config(project)) as (client, _):
        handle = client.submit([row(0), row(1, "wait"), row(2, "eat within a limit")])
        with pytest.raises(IncompleteRollouts) as found:
            await handle.gather()

    assert found.value.cause.out_of_memory
    assert (found.value.cause.process, found.value.cause.exit_code) == ("agent", 1)
    assert Key(1, 0) in found.value.missing
    assert "lower in_flight" in found.value.hint


@pytest.fixture
def memory_cgroup() -> Iterator[Path]:
    """A cgroup of 300 MiB, where this user may make one."""
    for base in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        folder = base / f"palestra-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            name = "memory.limit_in_bytes" if base.name == "memory" else "memory.max"
            (folder / name).write_text(str(300 << 20))
        except OSError:
            folder.rmdir()
            continue
        yield folder
        folder.rmdir()
        return
    pytest.skip("no memory cgroup can be made here")


async def test_an_agent_that_the_kernel_kills_for_memory_is_out_of_memory(
    project: Path, memory_cgroup: Path
) -> None:
    async with training(config(project)) as (client, fleet):
        (memory_cgroup / "cgroup.procs").write_text(str(pid_of(fleet, "agent")))
        handle = client.submit([row(0), row(1, "wait"), row(2, "eat")])
        started = time.monotonic()
        with pytest.raises(IncompleteRollouts) as found:
            await handle.gather()
        assert time.monotonic() - started < 30

    assert (found.value.cause.signal, found.value.cause.out_of_memory) == ("SIGKILL", True)
    assert "the kernel killed it, as the counter of" in str(found.value)


class Endpoint:
    """A model's endpoint that never answers, and notices when the request is closed."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.closed = asyncio.Event()
        self.port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Endpoint"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST"):
            self.asked.set()
            with contextlib.suppress(ConnectionError):
                while await reader.read(1 << 16):
                    pass
            self.closed.set()
        writer.close()


async def test_cancelling_closes_the_request_at_the_endpoint_and_the_session(
    project: Path,
) -> None:
    before = asyncio.all_tasks()
    async with Endpoint().running() as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/v1"
        model = f"openai_model: {{openai_base_url: '{url}', openai_api_key: k, openai_model: m}}"
        async with training(config(project, model)) as (client, fleet):
            handle = client.submit([row(0)])
            async with asyncio.timeout(30):
                await endpoint.asked.wait()
            # The rollout is in the middle of its generation now.
            await asyncio.sleep(0.6)
            handle.cancel()
            async with asyncio.timeout(2):
                await endpoint.closed.wait()
            for _ in range(250):
                if not (project / "session-closed").exists():
                    await asyncio.sleep(0.02)
            assert (project / "session-closed").exists()
            await handle.aclose()
            assert (await client.health()).in_flight == 0

    assert handle.summary().failed == {"cancelled": 1}
    urls = [url for instance in fleet.instances.values() for url in instance.urls]
    assert len(urls) == 3
    for url in urls:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*url.removeprefix("http://").split(":"))
    assert asyncio.all_tasks() <= before
    assert all(gone(instance.pid) for instance in fleet.instances.values() if instance.pid)


async def test_turns_in_other_processes_carry_the_versions_of_their_calls(project: Path) -> None:
    async with training(config(project)) as (client, _):
        await client.set_weight_version(3)
        (found,) = await client.submit([row(0)]).gather()

    (turn,) = found.turns  # type: ignore[union-attr]  # completed
    assert (turn.generated_ids, turn.weights_start, turn.weights_end) == ([3], 3, 3)
    assert found.timings.model_s is not None  # type: ignore[union-attr]  # completed


async def test_a_fleet_that_runs_elsewhere_is_watched_too(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(project / "run"))
    found = config(project)
    found.tree["head_server"] = {"host": "127.0.0.1", "port": 0}  # type: ignore[index]  # a dict
    async with Fleet(found, default_placement=PROCESS) as fleet, head_server(fleet) as head:
        here = attached(HeadAddress(head.host, head.port), every_s=0.2)
        async with RolloutClient(here, ClientSettings(memory_reserve=0.0)) as client:
            handle = client.submit([row(0), row(1, "wait")])
            assert (await handle.next()).reward == 1.0  # type: ignore[union-attr]  # completed
            os.kill(pid_of(fleet, "agent"), signal.SIGKILL)
            async with asyncio.timeout(10):
                with pytest.raises(IncompleteRollouts) as told:
                    await handle.next()

    cause = told.value.cause
    assert (cause.process, cause.signal) == ("agent", "SIGKILL")
    assert "lower in_flight" in cause.setting


@pytest.mark.parametrize("known", [True, False])
async def test_a_fleet_that_is_gone_has_left_word_of_why(
    project: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(project / "run"))
    found = config(project)
    found.tree["head_server"] = {"host": "127.0.0.1", "port": 0}  # type: ignore[index]  # a dict
    settings = ClientSettings(memory_reserve=0.0, attempts=Attempts(first_pause_s=20.0))
    async with contextlib.AsyncExitStack() as running:
        fleet = await running.enter_async_context(Fleet(found, default_placement=PROCESS))
        head = await running.enter_async_context(head_server(fleet))
        here = attached(HeadAddress(head.host, head.port), every_s=0.1)
        async with RolloutClient(here, settings) as client:
            handle = client.submit([row(0, "wait")])
            if known:
                os.kill(pid_of(fleet, "agent"), signal.SIGKILL)
                with pytest.raises(ServerDied):
                    await fleet.watch()
            await running.aclose()
            with pytest.raises(RuntimeError) as raised:
                await handle.gather()

    error = raised.value
    assert isinstance(error, IncompleteRollouts)
    assert str(error).startswith("NeMo Gym returned only 0 rollouts but 1 were requested.")
    # Where a fleet was stopped, nothing ran out of memory.
    assert ("num_prompts_per_step * num_generations_per_prompt" in error.hint) is known
    assert (f"(process {head.pid}) was stopped" in error.cause.sentence) is not known
    assert error.hint in str(error)
    assert not hasattr(error, "__notes__")
    assert (error.cause.process, error.cause.signal) == (
        ("agent", "SIGKILL") if known else ("", "")
    )
    assert list(error.log_tails) == (["agent"] if known else [])
