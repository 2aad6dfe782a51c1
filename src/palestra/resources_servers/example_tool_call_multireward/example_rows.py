"""The rows of `data/example.jsonl`, written by running this module: five cities."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

RULE = (
    "Answer questions about the weather with exactly one get_weather call and not a word beside it."
)
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city to get the weather for."}
        },
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
QUESTIONS = (
    ("Do I need an umbrella in Bergen?", "Bergen"),
    ("How warm is it in Seville?", "Seville"),
    ("What is the weather like in Valparaíso today?", "Valparaíso"),
    ("Is there fog in San Francisco?", "San Francisco"),
    ("Tell me about the weather. I am in Galway.", "Galway"),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": RULE},
                    {"role": "user", "content": question},
                ],
                "tools": [TOOL],
            },
            "expected_call": {"name": "get_weather", "arguments": {"city": city}},
        }
        for question, city in QUESTIONS
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
