"""An author's bug is told once in full, with the author's own lines, and then counted."""

import asyncio
import json

import pytest

from palestra.server.author_calls import Aside
from palestra.server.own_errors import PAUSE_S, OwnErrors, own_frames


def a_bug(text: str = "x") -> Exception:
    try:
        raise KeyError(text)
    except KeyError as error:
        return error


def in_a_thread() -> Exception:
    def parse() -> None:
        json.loads("{")

    try:
        asyncio.run(Aside().run(parse))
    except ValueError as error:
        return error
    raise AssertionError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_the_authors_own_lines_are_shown() -> None:
    frames = own_frames(in_a_thread()).splitlines()

    assert [line.rsplit(" ", 1)[1] for line in frames] == ["in_a_thread", "parse"]


def test_the_same_error_is_told_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    errors = OwnErrors(clock)
    for number in range(40):
        errors.log("env", "/verify", a_bug(f"row {number}"))
    clock.now = PAUSE_S
    errors.log("env", "/verify", a_bug())
    errors.log("env", "/verify", a_bug())
    errors.tell_rest()

    first, *rest = caplog.messages
    assert first.startswith("env/verify raised KeyError: 'row 0'\n")
    assert [line.removeprefix("env/verify raised KeyError ") for line in rest] == [
        "again, 41 times so far",
        "again, 42 times so far",
    ]


def test_another_error_is_told_in_full(caplog: pytest.LogCaptureFixture) -> None:
    errors = OwnErrors(Clock())
    errors.log("env", "/verify", a_bug())
    errors.log("env", "/tool", a_bug())
    errors.log("env", "/verify", in_a_thread())
    errors.tell_rest()

    assert len([text for text in caplog.messages if "\n" in text]) == 3
    assert len(caplog.messages) == 3
