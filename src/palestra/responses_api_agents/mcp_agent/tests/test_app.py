"""`mcp_agent`: the loop of `simple_agent`, with tools found over MCP."""

from palestra.testing import ScriptedFleet, called, task_row

ENVIRONMENT = "example_mcp_weather"
ROW = task_row("What is the weather in Paris?", verifier_metadata={"expected_city": "Paris"})


def test_the_environments_tools_are_found_and_called_over_mcp() -> None:
    with ScriptedFleet(
        ENVIRONMENT, answers=[called("get_weather", {"city": "Paris"}), "?"]
    ) as fleet:
        result = fleet.run(ROW)

    assert [tool.name for tool in fleet.model.asked[0].tools] == ["get_weather"]
    assert "Paris" in result["response"]["output"][1]["output"]
    assert result["reward"] == 0.0
