"""Helpers for tests of environments: scripted models, task rows, fleets, and assertions.

pytest_plugins = ["palestra.testing"]        # in conftest.py: the fixture `fleet`

def test_the_right_answer_is_rewarded() -> None:
    row = task_row("2 + 2 = ?", expected_answer="4")
    assert_verifies(MyServer, row, "The answer is 4.", 1.0)

def test_the_tool_is_called(fleet) -> None:
    running = fleet("resources_servers/my_env", answers=[called("add", {"a": 2, "b": 2}), "4"])
    assert running.run(row)["reward"] == 1.0

def test_the_endpoints_answer_is_the_response() -> None:
    with scripted_endpoint("4") as endpoint:
        response = model_response("responses_api_models/my_model", "2 + 2?", *endpoint.policy)
    assert response.final_text == "4"
"""

from palestra.schema import called, response_of, said
from palestra.testing.endpoints import (
    EndpointError,
    ScriptedEndpoint,
    model_response,
    scripted_endpoint,
)
from palestra.testing.fleets import ScriptedFleet, fleet, task_row, task_rows
from palestra.testing.scripted import ScriptedModel
from palestra.testing.verifying import (
    assert_recorded_rewards,
    assert_verifies,
    server_of,
    verify,
)

__all__ = [
    "EndpointError",
    "ScriptedEndpoint",
    "ScriptedFleet",
    "ScriptedModel",
    "assert_recorded_rewards",
    "assert_verifies",
    "called",
    "fleet",
    "model_response",
    "response_of",
    "said",
    "scripted_endpoint",
    "server_of",
    "task_row",
    "task_rows",
    "verify",
]
