"""The rows of `data/example.jsonl`, written by running this module.

Five problems, one for each kind of answer that takes more than comparing texts.
"""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

ASK = (
    "Solve the following math problem. Make sure to put the answer (and only answer) "
    "inside \\boxed{}."
)

PROBLEMS: tuple[tuple[str, str], ...] = (
    (
        "Four letters are put into four addressed envelopes. In how many ways is each wrong?",
        "9",
    ),
    ("For which real $x$ is $x^2 - 5x + 6 < 0$?", "(2,3)"),
    ("Find all real solutions of $x^4 - 13x^2 + 36 = 0$.", r"\{-3,-2,2,3\}"),
    ("Write $\\cos 3\\theta$ in terms of $\\cos\\theta$.", r"4\cos^3\theta - 3\cos\theta"),
    (
        "What is the inverse of the matrix $\\begin{pmatrix} 2 & 1 \\\\ 1 & 1 \\end{pmatrix}$?",
        r"\begin{pmatrix} 1 & -1 \\ -1 & 2 \end{pmatrix}",
    ),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": f"{ASK}\n\n{question}"}]
            },
            "question": question,
            "expected_answer": expected,
            "uuid": f"math-example-{number}",
        }
        for number, (question, expected) in enumerate(PROBLEMS)
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
