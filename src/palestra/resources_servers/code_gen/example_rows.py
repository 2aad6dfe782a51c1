"""The rows of `data/example.jsonl`, written by running this module: five small tasks, two of them
about a function and three about standard input and output.

The outputs come from the solutions below, which are also what the tests of this environment hand
in.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from palestra.schema import encode_json

ASK_PROGRAM = (
    "Write a Python program that reads from standard input and writes to standard output. "
    "End with the whole program in one block of code, between ```python and ```."
)
ASK_FUNCTION = (
    "Write the method in Python. End with the whole class in one block of code, between "
    "```python and ```."
)


def longest_run(given: str) -> str:
    """Length of the longest run of equal numbers."""
    numbers = given.split()[1:]
    best = run = 0
    for number, before in zip(numbers, [None, *numbers], strict=False):
        run = run + 1 if number == before else 1
        best = max(best, run)
    return f"{best}\n"


def mean_of_each(given: str) -> str:
    """The mean of each line, with two decimals."""
    lines = [list(map(int, line.split())) for line in given.splitlines()[1:]]
    return "".join(f"{sum(line) / len(line):.2f}\n" for line in lines)


def fewest_moves(given: str) -> str:
    """Steps from one number to another by doubling and subtracting one; small cases only."""
    start, goal = map(int, given.split())
    moves = 0
    while goal > start:
        goal = (goal + 1) if goal % 2 else goal // 2
        moves += 1
    return f"{moves + start - goal}\n"


def merged(intervals: list[list[int]]) -> list[list[int]]:
    """The union of intervals."""
    union: list[list[int]] = []
    for low, high in sorted(intervals):
        if union and low <= union[-1][1]:
            union[-1][1] = max(union[-1][1], high)
        else:
            union.append([low, high])
    return union


def first_unique(text: str) -> int:
    """Where the first character stands that occurs once; -1 when there is none."""
    return next((n for n, letter in enumerate(text) if text.count(letter) == 1), -1)


PROGRAMS: tuple[tuple[str, Callable[[str], str], Sequence[str]], ...] = (
    (
        (
            "A weather station wrote down n temperatures (1 <= n <= 100000), whole numbers. How long "
            "is the longest run of days in a row with the same temperature?\n\nInput: n, then on the "
            "next line the n numbers. Output: the length."
        ),
        longest_run,
        (
            "5\n3 3 1 1 1\n",
            "1\n-7\n",
            "6\n1 2 1 2 1 2\n",
            "4\n0 0 0 0\n",
            f"5000\n{'8 ' * 4999}9\n",
        ),
    ),
    (
        (
            "A class of pupils sat several tests. For each pupil, print the mean of the marks with "
            "two decimals.\n\nInput: the number of pupils, then a line of whole marks for each. "
            "Output: a line for each."
        ),
        mean_of_each,
        ("2\n1 2\n3 3 3\n", "1\n10\n", "3\n0 0\n1 0 0\n5 10 15 20\n"),
    ),
    (
        (
            "A counter shows a (1 <= a <= 10^9). One move doubles what it shows or subtracts one from "
            "it. What is the smallest number of moves after which it shows b (1 <= b <= 10^9)?\n\n"
            "Input: a and b on one line. Output: the number of moves."
        ),
        fewest_moves,
        ("4 6\n", "10 1\n", "1 1\n", "1 1000000000\n", "3 100\n"),
    ),
)

FUNCTIONS: tuple[tuple[str, str, Callable[..., Any], Sequence[tuple[Any, ...]]], ...] = (
    (
        (
            "Given closed intervals of whole numbers, return their union as the fewest intervals, in "
            "ascending order. Intervals that touch in a point belong together.\n\nclass Solution:\n"
            "    def merge(self, intervals: list[list[int]]) -> list[list[int]]:"
        ),
        "merge",
        merged,
        (
            ([[1, 3], [2, 6], [8, 10]],),
            ([[1, 4], [4, 5]],),
            ([[5, 6], [1, 2]],),
            ([[0, 9], [2, 3]],),
        ),
    ),
    (
        (
            "Return the index of the first character of a text that occurs in it only once, or -1.\n\n"
            "class Solution:\n    def firstUnique(self, text: str) -> int:"
        ),
        "firstUnique",
        first_unique,
        (("leaf",), ("aabb",), ("xxyz",), ("q",)),
    ),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    made = [
        _row(ASK_PROGRAM, text, list(inputs), [solution(given) for given in inputs])
        for text, solution, inputs in PROGRAMS
    ]
    for text, name, solution, calls in FUNCTIONS:
        inputs = ["\n".join(map(json.dumps, arguments)) for arguments in calls]
        outputs = [json.dumps(solution(*arguments)) for arguments in calls]
        made.append(_row(ASK_FUNCTION, text, inputs, outputs, fn_name=name))
    return [{**row, "hash_id": f"code_gen-example-{n}"} for n, row in enumerate(made)]


def _row(ask: str, text: str, inputs: list[str], outputs: list[str], **more: str) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"{ask}\n\n{text}"}]},
        "verifier_metadata": {"unit_tests": {"inputs": inputs, "outputs": outputs, **more}},
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
