"""The rows of `data/example.jsonl`, written by running this module: one call, several calls of one tool, two tools, an argument left out, and nothing to call."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

ASK = "Call the functions that answer the request. Call nothing if none of them does."


def _tool(name: str, description: str, required: list[str], **properties: str) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": required,
            "additionalProperties": False,
        },
        "strict": False,
    }


TIDES = _tool("tide_table", "Times of high water.", ["harbour"], harbour="string", days="integer")
FERRY = _tool("ferry_times", "Departures to a harbour.", ["to"], to="string", after="string")
RATE = _tool("exchange_rate", "Rate of two currencies.", ["of", "to"], of="string", to="string")

TASKS: tuple[tuple[str, list[dict[str, Any]], list[tuple[str, dict[str, Any]]]], ...] = (
    (
        "When is high water in Leith over the next 3 days?",
        [TIDES, RATE],
        [("tide_table", {"harbour": "Leith", "days": 3})],
    ),
    (
        "I need the tide tables of Oban and of Mallaig.",
        [TIDES],
        [("tide_table", {"harbour": "Oban"}), ("tide_table", {"harbour": "Mallaig"})],
    ),
    (
        "Which ferries go to Craignure after 14:00, and how many pounds (GBP) is a euro (EUR)?",
        [TIDES, FERRY, RATE],
        [
            ("ferry_times", {"to": "Craignure", "after": "14:00"}),
            ("exchange_rate", {"of": "EUR", "to": "GBP"}),
        ],
    ),
    ("Ferries to Armadale, please.", [FERRY], [("ferry_times", {"to": "Armadale"})]),
    ("Write me a limerick about gulls.", [TIDES, FERRY], []),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "id": number,
            "responses_create_params": {
                "input": [
                    {"role": "system", "content": ASK},
                    {"role": "user", "content": question},
                ],
                "tools": tools,
            },
            "expected_answers": [
                {"name": name, "arguments": arguments} for name, arguments in calls
            ],
        }
        for number, (question, tools, calls) in enumerate(TASKS)
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
