"""The rows of `data/example.jsonl`, written by running this module: what to find in, or do to, a short text."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

NOTES = (
    "A note on tides: The sea rises twice a day.\n\n"
    "A note on bread: Let the dough rest in the cold.\n\n"
    "A note on tides: Spring tides follow the full moon.\n\n"
    "A note on maps: North was not always up."
)

TASKS: tuple[tuple[str, str, str | None], ...] = (
    ("How many of the notes are about tides? Answer with the number alone.", "2", "exact"),
    (
        "Write 'k7Qw' and right after it the second note on tides, and nothing else.",
        "k7QwSpring tides follow the full moon.",
        "exact",
    ),
    (
        "Repeat the note on bread word by word, and nothing else.",
        "Let the dough rest in the cold.",
        "sequence_match",
    ),
    (
        "Repeat the last note word by word, and nothing else.",
        "North was not always up.",
        "weighted",
    ),
    ("What is the third note about? Answer with one word in lower case.", "tides", None),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": f"{NOTES}\n\n{question}"}]
            },
            "question": question,
            "expected_answer": expected,
            **({"rule": rule} if rule else {}),
            "uuid": f"equivalence-rule-example-{number}",
        }
        for number, (question, expected, rule) in enumerate(TASKS)
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
