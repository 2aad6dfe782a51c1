"""Whether a file may be uploaded as a train split, looked at on this machine only."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from palestra.datasets.problems import Lines
from palestra.errors import InputDataError
from palestra.schema import CREATE_PARAMS, read_jsonl

WANTED: Final = ("reward_profiles", "expected_answer")
"""What a train file had better have."""


def check_rows(path: Path) -> tuple[str, ...]:
    """Look at every row of a train split; warnings about what it had better have.

    Raises InputDataError that names all rows that lack what they must have.
    """
    wrong: defaultdict[str, Lines] = defaultdict(Lines)
    lacking: dict[str, int] = dict.fromkeys(WANTED, 0)
    count = 0
    for line in read_jsonl(path):
        count += 1
        if line.error:
            wrong["not a row"].add(line.number)
        elif not isinstance(line.row, Mapping):
            wrong["not an object"].add(line.number)
        else:
            if line.row.get(CREATE_PARAMS) is None:
                wrong[f"without {CREATE_PARAMS}"].add(line.number)
            for name in WANTED:
                lacking[name] += name not in line.row
    if wrong:
        told = "; ".join(f"{why}: rows {lines}" for why, lines in wrong.items())
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
