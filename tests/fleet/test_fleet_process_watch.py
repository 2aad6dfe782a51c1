"""The fleet's watch over a server process that has ended."""

import asyncio
import sys

import pytest

from palestra.fleet.child import Child
from palestra.fleet.instance import RunningInstance
from palestra.fleet.process_watch import ProcessWatch
from palestra.system import Pulse

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="signals")]


def test_the_number_of_a_process_that_has_ended_is_not_signalled() -> None:
    async def stacks(pulse: Pulse) -> str:
        child = await Child.spawn(
            "env", [sys.executable, "-c", ""], order=b"", on_line=lambda *_: None
        )
        await child.ended()
        pulse.begin()  # this process has the number now
        await ProcessWatch(RunningInstance("env", "", "", ""), child, pulse).take_stacks()
        return pulse.stack_text()

    pulse = Pulse.create()

    assert asyncio.run(stacks(pulse)) == ""
    pulse.close()
