"""A dataset of a given size, as multiple-choice datasets look: a request, options, an answer."""

import random
from pathlib import Path

import orjson

BATCH = 10_000


def write_dataset(path: Path, *, rows: int, row_bytes: int, seed: int = 0) -> None:
    """`rows` different rows of about `row_bytes`."""
    dice = random.Random(seed)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(5000)]
    system = "You answer multiple-choice questions. " + " ".join(words[:20])
    with path.open("wb") as file:
        for start in range(0, rows, BATCH):
            made = (_row(n, dice, words, system, row_bytes) for n in range(start, start + BATCH))
            count = min(BATCH, rows - start)
            file.write(b"".join(orjson.dumps(next(made)) + b"\n" for _ in range(count)))


def _row(
    number: int, dice: random.Random, words: list[str], system: str, row_bytes: int
) -> dict[str, object]:
    start = dice.randrange(4000)
    question = " ".join(words[start : start + max(1, (row_bytes - 700) // 8)])
    options = [{letter: words[dice.randrange(5000)]} for letter in "ABCD"]
    return {
        "responses_create_params": {
            "input": [
                {"role": "system", "content": system},
                {"role": "user", "content": f"{question} {number}?"},
            ],
            "tools": [],
            "temperature": 1.0,
        },
        "options": options,
        "expected_answer": dice.choice("ABCD"),
        "grading_mode": "strict_single_letter_boxed",
        "uuid": f"{dice.getrandbits(128):032x}",
        "difficulty": dice.randrange(1000) / 1000,
        "source": dice.choice(("web", "books", "exams")),
    }
