"""Ctrl-C in a Python call that a notebook's cell makes: an event loop runs already."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import palestra
from palestra.api.waiting import away_from_loop
from palestra.rollouts import ReverifyPaths
from palestra.testing import scripted_endpoint

STOPPED = """
import asyncio, os, signal
from pathlib import Path
from palestra import environment

COUNTDOWN = Path("countdown")

@environment(isolated=False, data=[{"q": at} for at in range(4)], prompt="{q}")
async def verify() -> float:
    if COUNTDOWN.exists():
        count = int(COUNTDOWN.read_text())
        COUNTDOWN.write_text(str(count - 1))
        if count == 0:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(5)
    return 1.0
"""


def under_asyncio_run(call: Callable[[], object]) -> None:
    """Call it where the first Ctrl-C does no more than cancel the task that calls."""

    async def main() -> None:
        call()

    asyncio.run(main())


def in_a_kernel(call: Callable[[], object]) -> None:
    """Call it where Ctrl-C raises KeyboardInterrupt although a loop runs."""

    async def main() -> None:
        call()

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


@pytest.mark.parametrize("within", [in_a_kernel, under_asyncio_run])
def test_an_interrupted_verification_keeps_what_is_verified_and_goes_on_later(
    within: Callable[[Callable[[], object]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    Path("stopped.py").write_text(STOPPED)
    with scripted_endpoint(*["1"] * 4) as endpoint:
        run = palestra.evaluate("stopped.py", model=f"vllm:{endpoint.url}", progress=False)
    Path("countdown").write_text("2")

    with pytest.raises(KeyboardInterrupt):
        within(lambda: run.reverify("again.jsonl", concurrency=1))

    partial = ReverifyPaths(tmp_path / "again.jsonl").partial
    assert len(partial.read_bytes().splitlines()) == 2
    assert run.reverify("again.jsonl", concurrency=1, resume=True).result["verified"] == 4


@pytest.mark.parametrize("within", [in_a_kernel, under_asyncio_run])
def test_nothing_waits_for_what_an_interrupted_call_looks_at(
    within: Callable[[Callable[[], object]], None],
) -> None:
    interrupted = threading.Event()
    waited_for: list[bool] = []

    def looks() -> None:
        time.sleep(0.2)  # until the caller waits
        os.kill(os.getpid(), signal.SIGINT)
        waited_for.append(not interrupted.wait(5))

    with pytest.raises(KeyboardInterrupt):
        within(lambda: away_from_loop(looks))
    assert waited_for == []
    interrupted.set()
