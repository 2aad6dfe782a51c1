"""The rows of `data/example.jsonl`, written by running this module: five moments of a library's help desk."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

POLICY = """You work at the desk of a lending library. At each step either write to the reader or call one tool, never both.
Find the reader's card with find_card before anything else. Renew a loan only when the reader has asked for it.
What you cannot do, hand to a colleague with hand_over."""


def _tool(name: str, description: str, *required: str) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {key: {"type": "string"} for key in required},
            "required": list(required),
            "additionalProperties": False,
        },
        "strict": True,
    }


TOOLS = [
    _tool("find_card", "Find a reader's card.", "card_number"),
    _tool("renew", "Renew a loan for three weeks.", "card_number", "book"),
    _tool("hand_over", "Hand the reader to a colleague.", "reason"),
]
FOUND = [
    {"role": "user", "content": "Hello, my card is R-204."},
    {
        "type": "function_call",
        "call_id": "c1",
        "name": "find_card",
        "arguments": '{"card_number": "R-204"}',
    },
    {
        "type": "function_call_output",
        "call_id": "c1",
        "output": '{"reader": "Ada", "loans": ["Middlemarch", "Emma"]}',
    },
]


def _says(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _call(name: str, arguments: str) -> dict[str, str]:
    return {"type": "function_call", "name": name, "arguments": arguments}


def _message(text: str) -> dict[str, str]:
    return {"type": "message", "content": text}


WELCOME = {"role": "assistant", "content": "Welcome, Ada. What can I do for you?"}

STEPS: tuple[tuple[list[dict[str, Any]], dict[str, str]], ...] = (
    (
        [_says("Good morning, I would like to renew a book.")],
        _message("Good morning! May I have the number of your card?"),
    ),
    (
        [_says("Please renew Emma. My card is R-204.")],
        _call("find_card", '{"card_number": "R-204"}'),
    ),
    (FOUND, _message("Welcome, Ada. What can I do for you?")),
    (
        [*FOUND, WELCOME, _says("Please renew Middlemarch.")],
        _call("renew", '{"card_number": "R-204", "book": "Middlemarch"}'),
    ),
    (
        [*FOUND, WELCOME, _says("Could you lower my fine?")],
        _call("hand_over", '{"reason": "The reader asks for a lower fine."}'),
    ),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {
                "input": [{"role": "system", "content": POLICY}, *conversation],
                "tools": TOOLS,
                "parallel_tool_calls": False,
            },
            "expected_action": expected,
        }
        for conversation, expected in STEPS
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
