"""The rows of `data/example.jsonl`, written by running this module: five questions, one for each place of an answer."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

QUESTIONS: tuple[tuple[str, str, str | None, bool], ...] = (
    (
        "Which river flows through Vienna? Put the name in \\boxed{}.",
        "Danube",
        "boxed",
        False,
    ),
    (
        "How many legs do three spiders have? End with 'Final answer: <number>'.",
        "24",
        "final_answer",
        False,
    ),
    (
        "Name the metal that is liquid at room temperature. Write the name alone on the last line.",
        "mercury",
        "last_line",
        False,
    ),
    (
        "What is the chemical symbol of gold? Answer with the symbol and nothing else.",
        "Au",
        "full",
        True,
    ),
    ("Which day follows Monday? Give your answer in a clear way.", "Tuesday", None, False),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(number, *question) for number, question in enumerate(QUESTIONS)]


def _row(
    number: int, question: str, expected: str, mode: str | None, case_sensitive: bool
) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": question}]},
        "expected_answer": expected,
        **({"extraction_mode": mode} if mode else {}),
        "case_sensitive": case_sensitive,
        "uuid": f"string-match-example-{number}",
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
