"""`simple_agent`: model turns and tool calls in turn, then the verifier."""

from palestra.testing import ScriptedFleet, called, task_row

ENVIRONMENT = "example_session_state_mgmt"


def test_tool_calls_are_run_until_the_model_answers() -> None:
    row = task_row("Count to 3.", expected_count=3, initial_count=1)
    with ScriptedFleet(
        ENVIRONMENT, answers=[called("increment_counter", {"count": 2}), "3"]
    ) as fleet:
        result = fleet.run(row)

    kinds = [item["type"] for item in result["response"]["output"]]
    assert kinds == ["function_call", "function_call_output", "message"]
    assert result["reward"] == 1.0


def test_arguments_that_are_no_json_go_back_to_the_model() -> None:
    broken = called("increment_counter", "{count: 2")
    row = task_row("Count to 3.", expected_count=3, initial_count=1)
    with ScriptedFleet(ENVIRONMENT, answers=[broken, "I give up."]) as fleet:
        result = fleet.run(row)

    assert "error" in result["response"]["output"][1]["output"]
    assert result["reward"] == 0.0
