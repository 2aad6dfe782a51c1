"""A process with thousands of rollouts in flight has file numbers that `select` cannot take."""

import asyncio
import os
import sys
from collections.abc import Iterator

import pytest
from chores import with_workers

from palestra.sandbox import LocalWorkers, Program, Returned, Sandbox, SandboxSettings
from palestra.system import raise_descriptor_limit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MOST_OF_SELECT = 1024


@pytest.fixture(autouse=True)
def _numbers_beyond_those_of_select() -> Iterator[None]:
    if raise_descriptor_limit() < 2 * MOST_OF_SELECT:
        pytest.skip("this machine allows too few open files")
    opened: list[int] = []
    try:
        while not opened or opened[-1] < MOST_OF_SELECT:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)


def test_a_program_runs_in_a_sandbox() -> None:
    async def main() -> int | None:
        async with Sandbox(SandboxSettings(backend="process")) as sandbox:
            return (await sandbox.run(Program.python("print(1)"))).exit_code

    assert asyncio.run(main()) == 0


def test_a_worker_is_used_for_the_next_call() -> None:
    async def twice(workers: LocalWorkers) -> list[object]:
        return [await workers.call("os:getpid", limit_s=20) for _ in range(2)]

    first, second = with_workers(twice, size=1)

    assert isinstance(first, Returned)
    assert first == second
