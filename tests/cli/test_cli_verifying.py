"""What `palestra verify-env` prints while it works."""

import asyncio
import contextlib

import pytest

from palestra.cli.verifying import print_progress
from palestra.conformance import Now


def test_a_slow_check_is_named_with_its_answer_and_its_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = Now(check="hostile", kind="hostile: boxes", row=0, probes=104, limit_s=15.0)

    async def run() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await print_progress(now, every_s=0.01)

    asyncio.run(run())

    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith("check hostile: answer 104 (boxes, row 0) is being verified for ")
    assert line.endswith(" s, at most 15 s")
