import json
from typing import Any

import pytest
from verifying import (
    agrees,
    answered,
    called,
    example_rows,
    post_verify,
    recorded,
    said,
    server_of,
    verify,
)

from palestra.resources_servers.example_tool_call_multireward.app import TwoRewardsWeatherServer

ROW = example_rows("example_tool_call_multireward")[0]
BERGEN = called("get_weather", '{"city": "Bergen"}')


@pytest.mark.parametrize(
    ("output", "correctness", "schema_valid", "right_format"),
    [
        ([BERGEN], 1.0, 1.0, 1.0),
        ([BERGEN, answered("sunny"), said("Sunny!")], 1.0, 1.0, 0.0),
        ([called("get_weather", '{"city": "Oslo"}')], 0.0, 1.0, 1.0),
        ([called("get_weather", '{"town": "Bergen"}')], 0.0, 0.0, 1.0),
        ([called("get_weather", "Bergen")], 0.0, 0.0, 1.0),
        ([called("look_outside", "{}")], 0.0, 0.0, 1.0),
        ([BERGEN, BERGEN], 0.0, 1.0, 0.0),
        ([said("Sunny!")], 0.0, 0.0, 0.0),
        ([], 0.0, 0.0, 0.0),
    ],
)
def test_each_component_judges_its_own(
    output: list[dict[str, Any]], correctness: float, schema_valid: float, right_format: float
) -> None:
    found = verify(server_of(TwoRewardsWeatherServer), ROW, *output)

    expected = {"correctness": correctness, "schema_valid": schema_valid, "format": right_format}
    assert found["reward_components"] == expected
    assert found["reward"] == correctness + schema_valid + right_format


def test_a_tool_whose_schema_is_none_is_the_rows_fault() -> None:
    broken = json.loads(json.dumps(ROW))
    broken["responses_create_params"]["tools"][0]["parameters"] = {"type": "no such type"}
    status, body = post_verify(server_of(TwoRewardsWeatherServer), broken, BERGEN)

    assert status == 422
    assert "not a valid JSON Schema" in json.dumps(body)


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(TwoRewardsWeatherServer)
    extras = {"_ng_task_index", "_ng_rollout_index", "agent_ref"}

    for row, result in recorded("example_tool_call_multireward"):
        made = {key: value for key, value in result.items() if key not in extras}
        assert agrees(server, row, made)
