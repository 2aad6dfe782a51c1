"""The rows of `data/example.jsonl`, written by running this module: five lakes to cross."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

RULES = (
    "You walk over a frozen lake, drawn as rows of letters: S is the start, F is ice that holds, "
    "H a hole that ends it, G the goal; your place is marked in red. Each turn, end with one step: "
    "<action>left</action>, <action>down</action>, <action>right</action> or <action>up</action>."
)
LAKES = (
    ["SFFF", "FHFH", "FFFH", "HFFG"],
    ["SFFF", "FFFH", "FHFF", "FFFG"],
    ["SHFF", "FHFF", "FFFH", "HFFG"],
    ["SFG", "FHF", "FFF"],
    ["SF", "FG"],
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {"input": [{"role": "system", "content": RULES}]},
            "env_id": "FrozenLake-v1",
            "env_kwargs": {"desc": lake, "is_slippery": False},
            "actions": {"left": 0, "down": 1, "right": 2, "up": 3},
            "seed": number,
        }
        for number, lake in enumerate(LAKES)
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
