"""Slips of authors who run a program."""

import asyncio

import pytest

from palestra.sandbox import Program, Sandbox, SandboxResult

RESULT = SandboxResult(stdout="4", stderr="", exit_code=0)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("output", "stdout"),
        ("returncode", "exit_code"),
        ("std_out", "stdout"),
        ("timedout", "timed_out"),
        ("oke", "ok"),
    ],
)
def test_an_unknown_attribute_of_a_result_is_answered_with_the_nearest(
    name: str, near: str
) -> None:
    with pytest.raises(AttributeError, match=f"did you mean '{near}'") as raised:
        getattr(RESULT, name)

    assert raised.value.name == name


def test_a_result_has_no_private_attribute() -> None:
    assert not hasattr(RESULT, "__html__")
    assert RESULT.model_copy() == RESULT


def test_stdin_that_is_a_number_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"stdin is a text, not int \(4\): write stdin=str\("):
        asyncio.run(Sandbox().run(Program.python("print(4)"), stdin=4))  # type: ignore[arg-type]
