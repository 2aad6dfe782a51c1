"""The rows of `data/example.jsonl`, written by running this module: five questions about the weather."""

from pathlib import Path

from palestra.resources_servers.example_single_tool_call.app import WeatherServer
from palestra.schema import encode_json
from palestra.serving import tool_schema

QUESTIONS = (
    "What is the weather in Bergen right now?",
    "Do I need a coat in Nairobi today?",
    "Compare the weather in Lima and in Quito for me.",
    "I land in Hanoi tonight. What should I pack?",
    "Is it a good day for a walk?",
)

SYSTEM = "You help people plan their day. Use the tools you have before you answer."


def rows() -> list[dict[str, object]]:
    """The five rows, in file order."""
    tools = [tool_schema(WeatherServer.get_weather)]
    return [
        {
            "responses_create_params": {
                "input": [
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": question},
                ],
                "tools": tools,
            }
        }
        for question in QUESTIONS
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
