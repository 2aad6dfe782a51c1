"""The watchdog on a loop that somebody blocks."""

import asyncio
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_world import ENVIRONMENT_APP, FLEET, Project, eventually, rollout

import palestra
from palestra.fleet import PROCESS, Fleet
from palestra.fleet.watchdog import CodeLocation, Lag, LagLog, Watchdog, is_servers_file, place_of

HERE = __file__


def watched(block: Callable[[], Any], **bounds: float) -> list[Lag]:
    """The lags of a loop on which `block` is called."""
    lags: list[Lag] = []
    over = asyncio.Event()

    def on_lag(lag: Lag) -> None:
        lags.append(lag)
        if lag.over:
            over.set()

    async def main() -> None:
        async with Watchdog(on_lag, threshold_s=0.2, **bounds):
            await asyncio.sleep(0)
            block()
            async with asyncio.timeout(10):
                await over.wait()

    asyncio.run(main())
    return lags


def sleep_of_an_author() -> None:
    time.sleep(0.8)


def half_a_sleep() -> None:
    time.sleep(0.4)


def search_of_an_author() -> None:
    re.match(r"(a|a)*$", "a" * 25 + "b")


def test_a_blocked_loop_is_told_with_the_line_that_blocked_it() -> None:
    [lag] = watched(sleep_of_an_author)

    assert lag.lasted_s >= 0.5
    assert lag.blamed is not None
    assert re.fullmatch(rf"{re.escape(HERE)}:\d+ sleep_of_an_author", lag.blamed.where)


@pytest.mark.slow
def test_code_that_holds_the_interpreters_lock_is_caught_as_it_returns() -> None:
    *_, lag = watched(search_of_an_author)  # a busy machine may be told while it lasts

    assert lag.blamed is not None
    assert lag.blamed.where.endswith(" search_of_an_author")


def test_a_block_that_lasts_is_told_while_it_lasts() -> None:
    lags = watched(sleep_of_an_author, still_s=0.3)

    *meanwhile, last = [lag.over for lag in lags]  # a busy machine may be told twice
    assert meanwhile
    assert not any(meanwhile)
    assert last
    assert "has been blocking the event loop for" in lags[0].message


@pytest.mark.slow
def test_many_short_steps_are_nobodys_fault() -> None:
    async def step() -> None:
        ends = time.monotonic() + 0.005
        while time.monotonic() < ends:
            pass

    lags: list[Lag] = []

    async def main() -> None:
        async with Watchdog(lags.append, threshold_s=0.2):
            await asyncio.gather(*(step() for _ in range(200)))
            await asyncio.sleep(0.3)

    asyncio.run(main())
    assert lags
    assert [lag.blamed for lag in lags] == [None] * len(lags)
    assert "no single call blocked it" in lags[0].message


@pytest.mark.slow
def test_one_long_call_after_the_other_is_the_fault_of_their_function() -> None:
    async def rollout_of_an_author() -> None:
        half_a_sleep()

    lags: list[Lag] = []

    async def main() -> None:
        async with Watchdog(lags.append, threshold_s=0.2):
            await asyncio.gather(*(rollout_of_an_author() for _ in range(4)))

    asyncio.run(main())
    assert lags[0].blamed is not None
    assert lags[0].blamed.where.endswith(" half_a_sleep")


def test_whoever_started_the_loop_is_not_to_blame() -> None:
    lags: list[Lag] = []

    async def main() -> None:
        async with Watchdog(lags.append, threshold_s=0.2):
            # No frame of this file runs then, but those that called asyncio.run.
            asyncio.get_running_loop().call_soon(time.sleep, 0.8)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(main(), 0.1))
    assert [lag.blamed for lag in lags] == [None]


def test_a_loop_that_runs_is_left_alone() -> None:
    lags: list[Lag] = []

    async def main() -> None:
        async with Watchdog(lags.append, threshold_s=5.0):
            await asyncio.sleep(0.6)

    asyncio.run(main())
    assert lags == []


PACKAGE = Path(palestra.__file__).parent


@pytest.mark.parametrize(
    ("path", "servers"),
    [
        ("/home/me/my_env/app.py", True),
        (str(PACKAGE / "resources_servers/mcqa/app.py"), True),
        (str(PACKAGE / "fleet/fleet.py"), False),
        (asyncio.__file__, False),
        (pytest.__file__, False),
        ("<string>", False),
    ],
)
def test_servers_files_are_told_from_libraries(path: str, servers: bool) -> None:
    assert is_servers_file(path) is servers


def test_code_of_no_server_has_no_place() -> None:
    over = threading.Event()
    waiting = threading.Thread(target=over.wait)
    waiting.start()
    frame = sys._current_frames()[waiting.ident or 0]

    assert place_of(frame) is None
    over.set()
    waiting.join()


SLOW_VERIFY = ENVIRONMENT_APP.replace(
    "total = session", "__import__('time').sleep(0.8); total = session"
)


def test_the_instance_that_blocked_the_loop_is_named(project: Project) -> None:
    project.environment(SLOW_VERIFY)
    lags: list[Lag] = []

    async def main() -> None:
        async with Fleet(project.load()) as fleet, Watchdog(lags.append, threshold_s=0.2):
            await rollout(fleet)

    asyncio.run(main())
    assert len(lags) == 1
    assert re.fullmatch(
        r"x blocked the event loop for \d\.\d s in .*/resources_servers/x/app.py:\d+ X.verify",
        lags[0].message,
    )


@pytest.mark.slow
def test_a_server_in_a_process_of_its_own_says_so_itself(project: Project) -> None:
    project.environment(SLOW_VERIFY)
    said: list[tuple[str, str]] = []

    async def main() -> bool:
        config = project.load(FLEET, "++watchdog=0.2")
        fleet = Fleet(config, default_placement=PROCESS, on_line=lambda *line: said.append(line))
        async with fleet:
            await rollout(fleet)
            return await eventually(lambda: any("blocked" in text for _, text in said))

    assert asyncio.run(main())
    assert any(who == "x" and "x blocked the event loop for" in text for who, text in said)


BLAMED = CodeLocation("my_env", "/path/app.py:41 verify")


def test_a_warning_names_server_duration_and_line() -> None:
    assert Lag(3.21, BLAMED).message == (
        "my_env blocked the event loop for 3.2 s in /path/app.py:41 verify"
    )


def test_warnings_are_few_and_the_summary_counts_all() -> None:
    said: list[str] = []
    moment = 0.0
    log = LagLog(said.append, clock=lambda: moment)
    for lasted in (0.6, 0.7, 0.9, 3.0, 0.8):
        log(Lag(lasted, BLAMED))
    moment = 11.0
    log(Lag(0.6, BLAMED))

    assert [re.findall(r"for ([\d.]+) s", text)[0] for text in said] == ["0.6", "3.0", "0.6"]
    assert log.summary() == (
        "the event loop was blocked 6 times; the longest: "
        "my_env blocked the event loop for 3.0 s in /path/app.py:41 verify"
    )


def test_a_short_lag_that_nobody_is_blamed_for_is_no_warning() -> None:
    said: list[str] = []
    log = LagLog(said.append)
    log(Lag(1.9))
    assert (said, log.summary()) == ([], "")
    log(Lag(2.1))
    assert len(said) == 1


def test_nothing_to_tell_is_no_summary() -> None:
    assert LagLog(print).summary() == ""
