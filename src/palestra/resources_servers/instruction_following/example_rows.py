"""The rows of `data/example.jsonl`, written by running this module: five prompts of one to three instructions."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

Instructions = tuple[tuple[str, dict[str, Any] | None], ...]

ROWS: tuple[tuple[str, Instructions, str], ...] = (
    (
        (
            "Write a note to the neighbours about tonight's rehearsal. Use no commas. "
            "Answer with less than 60 words."
        ),
        (
            ("punctuation:no_comma", None),
            ("length_constraints:number_words", {"num_words": 60, "relation": "less than"}),
        ),
        "binary",
    ),
    (
        (
            "Name three uses of an old tyre. Your answer must contain exactly 3 bullet points, "
            "such as:\n* This is a point.\nGive it a title in double angular brackets, such as "
            "<<title>>. Include the word rubber at least 2 times."
        ),
        (
            ("detectable_format:number_bullet_lists", {"num_bullets": 3}),
            ("detectable_format:title", None),
            (
                "keywords:frequency",
                {"keyword": "rubber", "frequency": 2, "relation": "at least"},
            ),
        ),
        "fraction",
    ),
    (
        (
            "Describe how a lock on a canal works. There should be 3 paragraphs, and only paragraphs "
            "are separated by two line breaks. Paragraph 2 must start with the word gates."
        ),
        (
            (
                "length_constraints:nth_paragraph_first_word",
                {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "gates"},
            ),
        ),
        "binary",
    ),
    (
        (
            "Why is the sky dark at night? Your entire response should be in German. "
            "The last word of your response should be the word Sterne."
        ),
        (
            ("language:response_language", {"language": "de"}),
            ("last_word:last_word_answer", {"last_word": "Sterne"}),
        ),
        "binary",
    ),
    (
        "List the planets by size, as JSON and nothing else. Do not include the word Pluto.",
        (
            ("detectable_format:json_format", None),
            ("keywords:forbidden_words", {"forbidden_words": ["Pluto"]}),
        ),
        "binary",
    ),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(number, *row) for number, row in enumerate(ROWS)]


def _row(number: int, prompt: str, instructions: Instructions, grading: str) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "prompt": prompt,
        "instruction_id_list": [name for name, _ in instructions],
        "kwargs": [kwargs for _, kwargs in instructions],
        "grading_mode": grading,
        "uuid": f"instruction-following-example-{number}",
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
