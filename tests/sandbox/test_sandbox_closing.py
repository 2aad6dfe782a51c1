"""A sandbox that is closed, or never came up, leaves nothing behind, whatever was under way."""

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest
from escaping import isolating, living, nothing_left

from palestra.errors import InfraError
from palestra.sandbox import Program, PythonSession, Sandbox, SandboxSettings
from palestra.sandbox.launching import KeeperLauncher

SLEEPS = Program.python("import time; time.sleep(60)")


@pytest.fixture(autouse=True)
def _no_garbage_is_collected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def until_something_runs() -> None:
    async with asyncio.timeout(20):
        while not living():  # noqa: ASYNC110  # processes are seen, they do not tell
            await asyncio.sleep(0.01)


def test_a_start_that_is_cancelled_leaves_no_launcher() -> None:
    async def start() -> None:
        try:
            await Sandbox(settings).start()
        except asyncio.CancelledError as error:
            kept.append(error)  # with all that its traceback holds

    async def main() -> None:
        starting = asyncio.ensure_future(start())
        await until_something_runs()
        starting.cancel()
        await starting

    settings = isolating()
    assert nothing_left()  # of the probe
    kept: list[BaseException] = []
    asyncio.run(main())

    assert len(kept) == 1
    assert nothing_left()


def test_closing_ends_what_runs_and_what_waits_for_a_place() -> None:
    async def main() -> list[object]:
        running = [asyncio.ensure_future(sandbox.run(SLEEPS)) for _ in range(3)]
        await until_something_runs()
        await sandbox.aclose()
        async with asyncio.timeout(20):
            return list(await asyncio.gather(*running, return_exceptions=True))

    sandbox = Sandbox(SandboxSettings(backend="process", at_once=1))
    outcomes = asyncio.run(main())

    assert [type(outcome) for outcome in outcomes] == [InfraError] * 3
    assert nothing_left()


def test_closing_ends_interpreters_that_nobody_closed() -> None:
    async def main() -> None:
        session = PythonSession(sandbox)
        await session.execute("1")
        await sandbox.aclose()
        assert await asyncio.to_thread(nothing_left)
        with pytest.raises(InfraError):
            await session.execute("2")

    sandbox = Sandbox(SandboxSettings(backend="process"))
    asyncio.run(main())


def test_handing_over_to_a_launcher_that_is_being_started_does_not_hold_the_loop_up() -> None:
    async def main() -> None:
        launcher = KeeperLauncher()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            with launcher._turn:
                handing = asyncio.ensure_future(launcher.hand_over(theirs))
                done, _ = await asyncio.wait({handing}, timeout=0.05)
                assert not done
            await handing
        launcher.close()

    asyncio.run(main())
    assert nothing_left()


def test_a_launcher_that_is_closed_while_it_starts_ends_when_it_has_started() -> None:
    async def main() -> KeeperLauncher:
        launcher = KeeperLauncher()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            with launcher._turn:
                handing = asyncio.ensure_future(launcher.hand_over(theirs))
                await asyncio.sleep(0)
                launcher.close()
            with pytest.raises(InfraError, match="was closed"):
                await handing
        return launcher

    kept = asyncio.run(main())
    assert nothing_left()
    assert kept.closed
