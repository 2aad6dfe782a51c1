"""The rows of `data/example.jsonl`, written by running this module: five questions with a short answer."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

ASK = "Answer the question. End with your answer, and nothing else, inside \\boxed{}."

QUESTIONS: tuple[tuple[str, str], ...] = (
    ("Which gas do plants take up from the air to make sugar?", "carbon dioxide"),
    ("How long does light take from the Sun to the Earth?", "about 8 minutes and 20 seconds"),
    ("What does a hygrometer measure?", "the humidity of the air"),
    ("Which two data structures make a least-recently-used cache?", "hash map and linked list"),
    ("What is the derivative of x² · ln x?", "2x ln x + x"),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(number, *question) for number, question in enumerate(QUESTIONS)]


def _row(number: int, question: str, expected: str) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"{ASK}\n\n{question}"}]},
        "question": question,
        "expected_answer": expected,
        "uuid": f"equivalence-example-{number}",
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
