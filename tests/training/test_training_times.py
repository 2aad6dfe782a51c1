"""Where the time of an attempt goes."""

import pytest

from palestra.schema import RolloutKey
from palestra.training.jobs import MODEL, TOOL, VERIFY, TrainingJob
from palestra.training.requests import RolloutRequest
from palestra.transport import calling, current_call


def asked() -> TrainingJob:
    """A rollout that was asked for."""
    return TrainingJob(
        key=RolloutKey(0, 0),
        agent="agent",
        request=RolloutRequest(row={}, task_id=0),
        size=0,
        run="run",
        number=0,
        submitted=0.0,
    )


def after(job: TrainingJob, seconds: float, phase: str) -> None:
    """The next phase, as if the last one had begun so much earlier."""
    job.since -= seconds
    job.now(phase, phase)


def test_waiting_for_the_endpoint_is_time_of_the_model() -> None:
    job = asked()

    after(job, 0.0, "/run")
    after(job, 1.0, MODEL)
    after(job, 0.25, "model server")
    after(job, 2.0, "retrying")
    after(job, 4.0, "/run")

    assert job.spent[MODEL] == pytest.approx(6.25, abs=0.1)
    assert job.spent["/run"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("call", [TOOL, VERIFY])
def test_a_model_that_an_environment_asks_is_time_of_the_environment(call: str) -> None:
    job = asked()

    after(job, 0.0, call)
    with calling(current_call().inside_environment()):
        for phase in (MODEL, "model server", call):
            after(job, 3.0, phase)
    after(job, 1.0, "/run")

    assert job.spent[call] == pytest.approx(10.0, abs=0.1)
    assert MODEL not in job.spent
