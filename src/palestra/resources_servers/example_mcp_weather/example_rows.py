"""The rows of `data/example.jsonl`, written by running this module: five cities."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

CITIES = ("Paris", "Tokyo", "Seattle", "Nairobi", "Toronto")
TASK = (
    "Use the get_weather MCP tool for {city}, then answer with exactly the weather sentence "
    "returned by the tool."
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order. They name no tools: the agent learns them from `/mcp`."""
    return [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": TASK.format(city=city)}],
                "tools": [],
            },
            "verifier_metadata": {"expected_city": city},
        }
        for city in CITIES
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
