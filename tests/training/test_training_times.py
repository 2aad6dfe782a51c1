"""Where the time of an attempt goes."""

import pytest

from palestra.schema import RolloutKey
from palestra.training.flights import MODEL, TOOL, VERIFY, Flight
from palestra.transport import calling, current_call


def after(flight: Flight, seconds: float, phase: str) -> None:
    """The next phase, as if the last one had begun so much earlier."""
    flight.since -= seconds
    flight.now(phase, phase)


def test_waiting_for_the_endpoint_is_time_of_the_model() -> None:
    flight = Flight(key=RolloutKey(0, 0), agent="agent")

    after(flight, 0.0, "/run")
    after(flight, 1.0, MODEL)
    after(flight, 0.25, "upstream")
    after(flight, 2.0, "retrying")
    after(flight, 4.0, "/run")

    assert flight.spent[MODEL] == pytest.approx(6.25, abs=0.1)
    assert flight.spent["/run"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("call", [TOOL, VERIFY])
def test_a_model_that_an_environment_asks_is_time_of_the_environment(call: str) -> None:
    flight = Flight(key=RolloutKey(0, 0), agent="agent")

    after(flight, 0.0, call)
    with calling(current_call().inside_environment()):
        for phase in (MODEL, "upstream", call):
            after(flight, 3.0, phase)
    after(flight, 1.0, "/run")

    assert flight.spent[call] == pytest.approx(10.0, abs=0.1)
    assert MODEL not in flight.spent
