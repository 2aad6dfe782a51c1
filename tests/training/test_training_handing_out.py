"""What a trainer is handed, and when: what was held meanwhile is looked at again."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from typing import Any

import pytest
from training_world import (
    AGENT,
    QUICK,
    ToldAgent,
    ToldServers,
    requests,
    trainer,
)

from palestra.errors import RunFailed, VerifierError
from palestra.fleet import ChildExit
from palestra.training import (
    ClientSettings,
    Completed,
    Failed,
    FailureClass,
    IncompleteRollouts,
    Key,
    OnIncomplete,
    OnStale,
    RolloutClient,
    SyncRolloutClient,
)
from palestra.training.sync import LoopThread

pytestmark = pytest.mark.anyio


class Held:
    """Rollouts of some tasks wait until they are let go."""

    def __init__(self, *tasks: int, raises: bool = False) -> None:
        self._tasks = tasks
        self._raises = raises
        self.released = asyncio.Event()

    async def __call__(self, key: Key, attempt: int) -> float:
        if key.task_id in self._tasks and key.rollout_index == 1:
            await self.released.wait()
            if self._raises:
                raise VerifierError("it raised")
        return 1.0


async def until_taken(handle: Any, count: int) -> None:
    """Until so many of a batch have come back, and been taken by whoever gathers them."""
    for _ in range(10_000):
        await asyncio.sleep(0)
        if handle.summary().completed >= count:
            break
    assert handle.summary().completed == count
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_grows_too_old_while_it_is_gathered_is_stale() -> None:
    held = Held(1)
    async with trainer(held, max_staleness=1) as (client, *_):
        await client.set_weight_version(1)
        handle = client.submit(requests(2, 2))
        gathering = asyncio.create_task(handle.gather())
        await until_taken(handle, 3)
        await client.set_weight_version(2)
        await client.set_weight_version(3)
        again = client.submit(requests(1))
        held.released.set()
        with pytest.raises(IncompleteRollouts, match="no rollout was left"):
            await gathering
        assert isinstance((await again.gather())[0], Completed)

    assert handle.summary().failed == {"stale": 4}
    assert handle.summary().adds_up


@pytest.mark.parametrize(("bumped_to", "kept"), [(5, True), (6, True), (7, False)])
async def test_staleness_is_counted_in_versions_since_the_oldest_token(
    bumped_to: int, kept: bool
) -> None:
    async with trainer(lambda *_: 1.0, max_staleness=1) as (client, *_):
        await client.set_weight_version(5)
        handle = client.submit(requests(1))
        await until_taken(handle, 1)
        await client.set_weight_version(bumped_to)
        found = await handle.next()

    assert isinstance(found, Completed if kept else Failed)


async def test_a_group_whose_first_members_grew_too_old_is_not_handed_out() -> None:
    held = Held(1)
    async with trainer(held, max_staleness=0, on_stale=OnStale.DROP) as (client, *_):
        await client.set_weight_version(1)
        handle = client.submit(requests(2, 2))
        groups = handle.groups(2)
        assert (await anext(groups)).group_id == 0
        await until_taken(handle, 3)
        await client.set_weight_version(2)
        held.released.set()
        rest = [group async for group in groups]

    assert rest == []
    assert handle.summary().completed == 2


async def test_drop_group_leaves_nothing_of_a_broken_group_in_what_is_gathered() -> None:
    held = Held(1, raises=True)
    async with trainer(held, on_incomplete=OnIncomplete.DROP_GROUP) as (client, *_):
        handle = client.submit(requests(2, 3))
        gathering = asyncio.create_task(handle.gather())
        await until_taken(handle, 5)
        held.released.set()
        found = await gathering

    kinds = [one.failure if isinstance(one, Failed) else None for one in found]
    lost = [FailureClass.CANCELLED, FailureClass.VERIFIER_ERROR, FailureClass.CANCELLED]
    assert kinds == [None, None, None, *lost]
    assert handle.summary().completed == 3
    assert handle.summary().adds_up


async def test_gathering_what_was_taken_already_is_refused() -> None:
    async with trainer(lambda *_: 1.0) as (client, *_):
        handle = client.submit(requests(3))
        await handle.next()
        with pytest.raises(
            RuntimeError, match="1 outcomes of this submission were already returned"
        ):
            await handle.gather()


# Nobody waits for ever


async def test_a_rollout_that_cancels_its_own_task_has_failed() -> None:
    async def cancels_itself(key: Key, attempt: int) -> float:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return 1.0

    async with trainer(cancels_itself) as (client, *_):
        async with asyncio.timeout(20):
            with pytest.raises(IncompleteRollouts, match="cancelled the task that runs it"):
                await client.submit(requests(1)).gather()


async def test_a_client_that_was_left_takes_nothing_on() -> None:
    async with trainer(lambda *_: 1.0) as (client, *_):
        pass

    with pytest.raises(RuntimeError, match="is closed"):
        client.submit(requests(1))


async def test_servers_that_are_stopped_under_a_batch_end_it() -> None:
    class Stopped(ToldServers):
        async def watch(self) -> None:
            await asyncio.sleep(0)

    async def hangs(key: Key, attempt: int) -> float:
        await asyncio.Event().wait()
        return 1.0

    servers = contextlib.nullcontext(Stopped(ToldAgent(hangs)))
    async with RolloutClient(servers, ClientSettings(attempts=QUICK)) as client:
        async with asyncio.timeout(20):
            with pytest.raises(IncompleteRollouts, match="servers were stopped"):
                await client.submit(requests(2)).gather()


@pytest.mark.parametrize("returncode", [-35, -64, -9, 3])
async def test_a_death_is_told_whatever_signal_it_was(returncode: int) -> None:
    async def hangs(key: Key, attempt: int) -> float:
        await asyncio.Event().wait()
        return 1.0

    async with trainer(hangs) as (client, _, servers):
        handle = client.submit(requests(2))
        servers.dies(ChildExit(AGENT, returncode, (), pid=4711))
        async with asyncio.timeout(20):
            with pytest.raises(IncompleteRollouts, match=r"agent \(process 4711\) ended with"):
                await handle.gather()


async def test_a_death_that_cannot_be_explained_is_told_all_the_same() -> None:
    class Unexplained(ToldServers):
        @property
        def ending(self) -> ChildExit:  # type: ignore[override]  # broken on purpose
            return None.nothing  # type: ignore[attr-defined,no-any-return]  # broken on purpose

        @ending.setter
        def ending(self, value: object) -> None: ...

        async def watch(self) -> None:
            raise RunFailed("gone")

    servers = contextlib.nullcontext(Unexplained(ToldAgent(lambda *_: 1.0)))
    async with RolloutClient(servers, ClientSettings(attempts=QUICK)) as client:
        await asyncio.sleep(0)
        with pytest.raises(IncompleteRollouts, match="gone"):
            await client.submit(requests(1)).gather()


def test_the_sync_twin_that_was_left_says_so() -> None:
    agent = ToldAgent(lambda *_: 1.0)
    with SyncRolloutClient(lambda: contextlib.nullcontext(ToldServers(agent))) as client:
        pass

    with pytest.raises(RuntimeError, match="not been entered"):
        client.submit(requests(1))


def test_an_interrupted_call_ends_what_it_began_before_its_caller_goes_on() -> None:
    happened: list[str] = []

    caller = threading.get_ident()

    async def begins() -> None:
        try:
            # Of a thread that blocks there is no event.
            while sys._current_frames()[caller].f_code.co_name != "wait":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while True:  # a signal just before the thread blocks does not wake it
                os.kill(os.getpid(), signal.SIGUSR1)
                await asyncio.sleep(1)
        finally:
            await asyncio.sleep(0.05)
            happened.append("ended")

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with LoopThread() as loop, pytest.raises(KeyboardInterrupt):
            loop.run(begins())
        assert happened == ["ended"]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_first_interrupt_under_asyncio_run_ends_a_call_that_blocks_its_loop() -> None:
    went_on: list[str] = []

    async def is_interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(5)
        went_on.append("to its end")

    async def trains() -> None:
        with LoopThread() as loop:
            loop.run(is_interrupted())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(trains())
    assert went_on == []
