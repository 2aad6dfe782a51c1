"""The rows of `data/example.jsonl`, written by running this module: five questions, one for each way to read an answer."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

BOXED = "Think it over, then end with the letter of your choice as \\boxed{letter}."
COLON = 'Think it over, then end with a line "Answer: " and the letter of your choice.'
TAGGED = "Think it over, then give the letter of your choice between <choice> and </choice>."

QUESTIONS: tuple[dict[str, Any], ...] = (
    {
        "question": "How many edges does a cube have?",
        "options": ("6", "8", "10", "12"),
        "expected_answer": "D",
        "grading_mode": "strict_single_letter_boxed",
        "ask": BOXED,
    },
    {
        "question": "Which of these words is a preposition?",
        "options": ("under", "slowly", "kettle", "because"),
        "expected_answer": "A",
        "grading_mode": "lenient_boxed",
        "ask": BOXED,
    },
    {
        "question": "Ice floats on water. Why?",
        "options": (
            "It is colder than water",
            "It is less dense than water",
            "Its surface is smoother",
        ),
        "expected_answer": "B",
        "grading_mode": "lenient_answer_colon",
        "ask": COLON,
    },
    {
        "question": "A loop appends its index to a list, from 0, five times. What is the sum?",
        "options": ("5", "10", "15", "20", "25"),
        "expected_answer": "B",
        "grading_mode": "lenient_answer_colon",
        "template_metadata": {"output_regex": r"<choice>\s*([A-E])\s*</choice>"},
        "ask": TAGGED,
    },
    {
        "question": "Which of these is the largest?",
        "options": ("0.3", "2/7", "31%", "1/3"),
        "expected_answer": "D",
        "grading_mode": "strict_single_letter_boxed",
        "ask": BOXED,
    },
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(number, **question) for number, question in enumerate(QUESTIONS)]


def _row(
    number: int, *, question: str, options: tuple[str, ...], ask: str, **graded: Any
) -> dict[str, Any]:
    by_letter = dict(zip("ABCDE", options, strict=False))
    listed = "\n".join(f"{letter}: {text}" for letter, text in by_letter.items())
    content = f"{ask}\n\n{question}\n{listed}"
    return {
        "responses_create_params": {"input": [{"role": "user", "content": content}]},
        "options": [{letter: text} for letter, text in by_letter.items()],
        **graded,
        "uuid": f"mcqa-example-{number}",
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
