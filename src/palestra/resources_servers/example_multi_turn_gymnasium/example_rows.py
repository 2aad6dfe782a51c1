"""The rows of `data/example.jsonl`, written by running this module: one follow-up, or two."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

DIALOGUES: tuple[tuple[str, list[str], str], ...] = (
    ("What is 7 times 9?", ["And that plus 37?"], "100"),
    ("Which metal is liquid at room temperature?", ["What is its chemical symbol?"], "Hg"),
    (
        "In which country is the city of Porto?",
        ["What is that country's capital?", "On which river does that capital lie?"],
        "Tagus",
    ),
    ("Who wrote Middlemarch?", ["Under which name was that author born: Mary Ann what?"], "Evans"),
    ("How many sides has a hexagon?", ["Halve that.", "And square it."], "9"),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": question}]},
            "follow_ups": follow_ups,
            "expected_answer": expected,
        }
        for question, follow_ups, expected in DIALOGUES
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
