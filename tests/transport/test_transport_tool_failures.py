"""Which failures of a tool are answers for the model."""

import pytest

from palestra.errors import (
    CallError,
    CallEvidence,
    DeadlineExceeded,
    EnvironmentFault,
    Hop,
)
from palestra.transport import tool_failure_text

RAISED = CallEvidence(traceback="app.py:3 in look_up")


def test_what_a_tool_raised_is_text_for_the_model() -> None:
    failure = EnvironmentFault("env/look_up raised KeyError: 'x'", evidence=RAISED)

    assert "KeyError" in (tool_failure_text(failure, {}) or "")


@pytest.mark.parametrize(
    "failure",
    [
        DeadlineExceeded("env/look_up: the deadline passed", evidence=RAISED),
        EnvironmentFault(
            "judge answered 501",
            evidence=CallEvidence(traceback="app.py:3 in look_up", hops=(Hop("judge", "u", 501),)),
        ),
    ],
)
def test_a_deadline_and_a_nested_failure_are_no_answer_for_the_model(failure: CallError) -> None:
    assert tool_failure_text(failure, {}) is None
