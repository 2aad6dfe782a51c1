r"""The rows of `data/example.jsonl`, written by running this module: five rules of our own making."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from palestra.schema import encode_json

Grid = list[list[int]]


def _mirrored(grid: Grid) -> Grid:
    return [row[::-1] for row in grid]


def _doubled(grid: Grid) -> Grid:
    return [[cell for cell in row for _ in range(2)] for row in grid for _ in range(2)]


def _turned(grid: Grid) -> Grid:
    return [list(row) for row in zip(*grid[::-1], strict=True)]


def _fallen(grid: Grid) -> Grid:
    columns = [[cell for cell in column if cell] for column in zip(*grid, strict=True)]
    height = len(grid)
    padded = [[0] * (height - len(column)) + column for column in columns]
    return [list(row) for row in zip(*padded, strict=True)]


def _swapped(grid: Grid) -> Grid:
    return [[{1: 2, 2: 1}.get(cell, cell) for cell in row] for row in grid]


TASKS: tuple[tuple[str, Callable[[Grid], Grid], tuple[Grid, Grid, Grid]], ...] = (
    ("mirror", _mirrored, ([[1, 0, 0], [2, 3, 0]], [[0, 5], [4, 4]], [[7, 0, 2], [0, 7, 1]])),
    ("double", _doubled, ([[1, 2]], [[3], [4]], [[5, 6], [7, 8]])),
    ("turn", _turned, ([[1, 2], [3, 4]], [[5, 5, 0]], [[9, 0], [0, 9], [1, 1]])),
    (
        "fall",
        _fallen,
        ([[1, 0], [0, 0]], [[2, 3, 0], [0, 3, 0], [0, 0, 0]], [[4, 0, 6], [0, 5, 0], [0, 0, 0]]),
    ),
    ("swap", _swapped, ([[1, 2, 3]], [[2, 2], [0, 1]], [[1, 0, 2], [3, 2, 1]])),
)


def _written(grid: Grid) -> str:
    return "\n".join(" ".join(map(str, row)) for row in grid)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(name, rule, *grids) for name, rule, grids in TASKS]


def _row(name: str, rule: Callable[[Grid], Grid], *grids: Grid) -> dict[str, Any]:
    *shown, asked = grids
    examples = "\n\n".join(
        f"Input:\n{_written(grid)}\n\nOutput:\n{_written(rule(grid))}" for grid in shown
    )
    content = (
        f"Find the rule that makes each output of its input.\n\n{examples}\n\n"
        f"Apply it to this input:\n{_written(asked)}\n\n"
        "End with the output as a list of rows, like \\boxed{[[1,2],[3,4]]}."
    )
    return {
        "responses_create_params": {"input": [{"role": "user", "content": content}]},
        "train": [{"input": grid, "output": rule(grid)} for grid in shown],
        "test_input": asked,
        "expected_output": rule(asked),
        "task_id": f"palestra-{name}",
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
