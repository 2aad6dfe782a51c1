r"""The rows of `data/example.jsonl` and `data/verifier_cases.jsonl`, written by running this module.

Five problems that are short work for an interpreter, with the calls of somebody who uses one and
an answer that is wrong.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from palestra.schema import encode_json

INSTRUCTIONS: Final = (
    "Solve the math problem. Where calculations help, run Python with the tool execute_python: "
    "variables are kept from call to call, and what you print comes back, as does the value of "
    "the last line. numpy, scipy and pandas are there. End with the answer, and only the answer, "
    "inside \\boxed{}."
)
TOOL: Final = {
    "type": "function",
    "name": "execute_python",
    "description": "Execute Python code to perform calculations. You have access to numpy, scipy, "
    "pandas and basic math operations.",
    "parameters": {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "description": "The Python code to execute for the calculation.",
            }
        },
        "required": ["code"],
        "additionalProperties": False,
    },
    "strict": True,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, cells that solve it, and answers to it."""

    question: str
    cells: Sequence[str]
    right: str
    wrong: str


PROBLEMS: Final = (
    Problem(
        "How many prime numbers are there between 10000 and 20000?",
        (
            "def is_prime(n):\n    return all(n % d for d in range(2, int(n**0.5) + 1))",
            "sum(map(is_prime, range(10_000, 20_000)))",
        ),
        "1033",
        "1229",
    ),
    Problem(
        "What is the sum of the digits of $2^{1000}$?",
        ("print(sum(map(int, str(2**1000))))",),
        "1366",
        "1365",
    ),
    Problem(
        "Five fair dice are thrown. How likely is it that they show 18 together?",
        (
            "from fractions import Fraction\nfrom itertools import product",
            "hits = sum(sum(dice) == 18 for dice in product(range(1, 7), repeat=5))",
            "print(Fraction(hits, 6**5))",
        ),
        r"\frac{65}{648}",
        "0.1",
    ),
    Problem(
        r"Find $\int_0^1 \frac{\ln(1+x)}{x}\,dx$ in closed form.",
        (
            "import numpy as np\nx = (np.arange(10**6) + 0.5) / 10**6",
            "value = np.mean(np.log1p(x) / x)",
            "print(value, np.pi**2 / value)",
        ),
        r"\frac{\pi^2}{12}",
        r"\frac{\pi^2}{6}",
    ),
    Problem(
        "For which real $t$ has the matrix $\\begin{pmatrix} t & 1 & 1 \\\\ 1 & t & 1 \\\\ "
        "1 & 1 & t \\end{pmatrix}$ the determinant 0?",
        (
            "import numpy as np",
            "det = lambda t: np.linalg.det(np.ones((3, 3)) + (t - 1) * np.eye(3))",
            "[t for t in range(-9, 10) if abs(det(t)) < 1e-9]",
        ),
        r"\{-2, 1\}",
        "1",
    ),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [
        {
            "responses_create_params": {
                "input": [
                    {"role": "system", "content": INSTRUCTIONS},
                    {"role": "user", "content": problem.question},
                ],
                "tools": [TOOL],
                "parallel_tool_calls": False,
            },
            "expected_result": problem.right,
            "question": problem.question,
            "uuid": f"math-with-code-example-{number}",
        }
        for number, problem in enumerate(PROBLEMS)
    ]


def cases() -> list[dict[str, Any]]:
    """For each row the calls with a right answer, and the same calls with a wrong one."""
    return [
        {
            "row": number,
            "output": [*_calls(problem), _said(rf"The answer is $\boxed{{{answer}}}$.")],
            "reward": reward,
            "note": note,
            "derive": False,
        }
        for number, problem in enumerate(PROBLEMS)
        for answer, reward, note in (
            (problem.right, 1.0, "computed"),
            (problem.wrong, 0.0, "calls alone are worth nothing"),
        )
    ]


def _calls(problem: Problem) -> list[dict[str, Any]]:
    return [
        {
            "type": "function_call",
            "name": "execute_python",
            "arguments": json.dumps({"code": cell}),
            "call_id": f"call-{number}",
        }
        for number, cell in enumerate(problem.cells)
    ]


def _said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "answer", "role": "assistant", "content": content}


if __name__ == "__main__":
    data = Path(__file__).with_name("data")
    for name, made in (("example.jsonl", rows()), ("verifier_cases.jsonl", cases())):
        data.joinpath(name).write_bytes(b"".join(encode_json(row) + b"\n" for row in made))
