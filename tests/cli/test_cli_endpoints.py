"""How often a command says that it waits for a model's endpoint."""

import asyncio

import pytest

from palestra.api import endpoint_waiting
from palestra.api.endpoint_waiting import ASK_AGAIN_S, ReminderPace, Wait, wait_for
from palestra.errors import InfraError


def test_waiting_is_told_at_growing_intervals_and_then_once_a_minute() -> None:
    pace = ReminderPace()
    asked = [number * ASK_AGAIN_S for number in range(130)]

    told = [elapsed_s for elapsed_s in asked if pace.is_due(elapsed_s)]

    assert told == [0, 2, 4, 8, 16, 32, 64, 124, 184, 244]


def test_a_slow_answer_does_not_bring_lines_one_after_the_other() -> None:
    pace = ReminderPace()

    assert [pace.is_due(elapsed_s) for elapsed_s in (0.0, 31.0, 33.0, 61.0, 62.0)] == [
        *(True, True, False, False, True)
    ]


def test_a_reason_of_a_wait_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_waiting, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(ReminderPace, "is_due", lambda *_: True)
    reasons = iter(["refused", "refused", "no route", "no route"])
    lines: list[str] = []

    async def check() -> str:
        reason = next(reasons, None)
        if reason is None:
            return "ready"
        raise InfraError(reason)

    asyncio.run(wait_for("model", check, Wait(None), lines.append))

    assert [sum(reason in line for line in lines) for reason in ("refused", "no route")] == [1, 1]
    assert [line.partition(", ")[0] for line in lines[:4]] == [
        "model: waiting for its endpoint"
    ] * 4
