"""Whether a file may be uploaded as a train split, looked at on this machine only."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from palestra.errors import InputDataError
from palestra.schema import CREATE_PARAMS, read_jsonl

WANTED: Final = ("reward_profiles", "expected_answer")
"""What a train file had better have."""
MOST_RANGES: Final = 20
DASH: Final = "\u2013"


def check_rows(path: Path) -> tuple[str, ...]:
    """Look at every row of a train split; warnings about what it had better have.

    Raises InputDataError that names all rows that lack what they must have.
    """
    wrong: defaultdict[str, list[int]] = defaultdict(list)
    lacking: dict[str, int] = dict.fromkeys(WANTED, 0)
    count = 0
    for line in read_jsonl(path):
        count += 1
        if line.error:
            wrong["not a row"].append(line.number)
        elif not isinstance(line.row, Mapping):
            wrong["not an object"].append(line.number)
        else:
            if line.row.get(CREATE_PARAMS) is None:
                wrong[f"without {CREATE_PARAMS}"].append(line.number)
            for name in WANTED:
                lacking[name] += name not in line.row
    if wrong:
        told = "; ".join(f"{why}: rows {ranges(numbers)}" for why, numbers in wrong.items())
        raise InputDataError(
            f"{path} is not a train split: {told}",
            hint="nothing was uploaded; `palestra prepare` makes and checks such files, and split "
            "validation or test is not checked",
        )
    return tuple(
        f"{path}: {missing:,} of {count:,} rows have no {name}"
        for name, missing in lacking.items()
        if missing
    )


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in order, neighbours drawn together: `4, 17-20`, with a longer dash."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    told = [f"{first}{DASH}{last}" if last > first else str(first) for first, last in runs]
    more = f", and {len(told) - MOST_RANGES} more places" if len(told) > MOST_RANGES else ""
    return ", ".join(told[:MOST_RANGES]) + more
