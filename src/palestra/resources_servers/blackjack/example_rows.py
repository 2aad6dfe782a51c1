"""The rows of `data/example.jsonl`, written by running this module: five hands, dealt by their seeds."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

RULES = (
    "You are playing blackjack against a dealer who draws to 17. After each look at your hand, "
    "respond with <action>hit</action> or <action>stand</action>."
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {
                "input": [
                    {"role": "system", "content": RULES},
                    {"role": "user", "content": "Deal me in."},
                ]
            },
            "seed": seed,
        }
        for seed in range(5)
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
