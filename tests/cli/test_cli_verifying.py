"""What `palestra verify-env` prints while it works."""

import asyncio
import contextlib
import time

import pytest

from palestra.cli.verifying import print_progress
from palestra.conformance import Now


def first_line(now: Now, capsys: pytest.CaptureFixture[str]) -> str:
    async def run() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await print_progress(now, every_s=0.01)

    asyncio.run(run())
    return capsys.readouterr().err.splitlines()[0]


def test_a_slow_answer_is_named_with_its_check_and_its_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    began = time.monotonic() - 5
    now = Now("hostile", kind="hostile: boxes", row=0, probes=104, limit_s=15.0, began=began)

    line = first_line(now, capsys)

    assert line.startswith("check hostile: answer 104 (boxes, row 0) is being verified for 5")
    assert line.endswith(" s, at most 15 s")


def test_a_check_of_many_quick_answers_says_how_many_it_has_verified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = Now("same", kind="same: empty", row=0, probes=6)

    assert first_line(now, capsys) == "check same: 5 answers are verified"
