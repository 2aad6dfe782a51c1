"""How processes end, in words."""

import signal

import pytest

from palestra.fleet import ChildExit
from palestra.system import how_ended, signal_name

NAMELESS = 99


@pytest.mark.parametrize(
    ("returncode", "how"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal SIGKILL"), (-NAMELESS, "signal 99")],
)
def test_the_end_of_a_process_is_an_exit_code_or_a_signal(returncode: int, how: str) -> None:
    assert how_ended(returncode) == how


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (NAMELESS, "99")])
def test_a_signal_without_a_name_is_its_number_everywhere(number: int, name: str) -> None:
    ending = ChildExit("agent", -number, ())

    assert signal_name(number) == ending.signal_name == name
    assert ending.how == how_ended(-number) == f"signal {name}"
