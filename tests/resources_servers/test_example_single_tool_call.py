import asyncio

import orjson
from verifying import agrees, called, recorded, said, server_of, verify

from palestra.resources_servers.example_single_tool_call.app import WeatherServer
from palestra.transport import call_asgi


def test_the_tool_tells_the_weather_of_the_city_it_was_given() -> None:
    server = server_of(WeatherServer)

    reply = asyncio.run(
        call_asgi(server.asgi_app(), "POST", "/get_weather", body=b'{"city": "Oslo"}')
    )

    assert orjson.loads(reply.body) == {
        "city": "Oslo",
        "weather_description": "The weather in Oslo is cold.",
    }


def test_wrong_arguments_are_explained_to_the_model() -> None:
    server = server_of(WeatherServer)

    reply = asyncio.run(call_asgi(server.asgi_app(), "POST", "/get_weather", body=b'{"town": 1}'))

    assert reply.status == 200
    assert "/city" in orjson.loads(reply.body)["error"]


def test_every_rollout_is_rewarded_and_keeps_the_fields_of_its_row() -> None:
    server = server_of(WeatherServer)

    result = verify(server, {"uuid": "u"}, called("nonsense", "{"), said(""))

    assert result["reward"] == 1.0
    assert result["uuid"] == "u"


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(WeatherServer)

    assert all(agrees(server, row, result) for row, result in recorded("example_single_tool_call"))
