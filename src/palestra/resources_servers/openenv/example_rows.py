"""The rows of `data/example.jsonl`, written by running this module: for the echo environment.

That is the one which `openenv init` makes: it says everything back, ten characters a point.
"""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

RULES = (
    "Everything you write is echoed, and earns a tenth of a point for each character. "
    "Write what you are asked for, and nothing else."
)
TASKS = (
    "Write the alphabet in lower case, without spaces.",
    "Write the numbers from 1 to 20, separated by commas.",
    "Write the first sentence of a story about a lighthouse.",
    "Write the names of the seven days of the week, one per line.",
    "Write one word.",
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {
                "input": [
                    {"role": "system", "content": RULES},
                    {"role": "user", "content": task},
                ]
            },
            "reset": {"seed": number},
        }
        for number, task in enumerate(TASKS)
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
