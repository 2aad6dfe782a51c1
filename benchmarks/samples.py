"""The estimator: 10th percentile and median over many short chunks.

On shared cores a single run cannot be trusted: contention inflates even CPU time. The tenth
percentile of short chunks is what the work costs when it is left alone.
"""

from collections.abc import Sequence
from statistics import fmean, median


def p10(values: Sequence[float]) -> float:
    """The 10th percentile, by nearest rank."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 10]


def summary(values: Sequence[float]) -> tuple[float, float, float]:
    """p10, median and mean."""
    return p10(values), median(values), fmean(values)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned: the first to the left, figures to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
