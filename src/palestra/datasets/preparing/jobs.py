"""What is done with a part of a file: count its rows, look at each, write them."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from palestra.datasets.measures import RowMeasures
from palestra.datasets.preparing.parts import Part, TooLong, lines_of
from palestra.datasets.preparing.rows import DatasetRows, Writer, taken, tokenizer_at
from palestra.datasets.problems import RowProblems
from palestra.datasets.prompts import fill_row
from palestra.datasets.row_checks import RowCheck
from palestra.errors import RunFailed
from palestra.schema import MAX_ROW_BYTES, Line, read_jsonl


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows are in a part?"""

    part: Part


@dataclass(frozen=True, slots=True)
class Look:
    """Check and measure a part of dataset number `dataset`, which begins with row `first_row`."""

    dataset: int
    part: Part
    first_row: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Write the rows of a part into files, each from an offset on; they become `size` bytes."""

    dataset: int
    part: Part
    first_row: int
    plain: bool
    size: int
    targets: tuple[tuple[Path, int], ...]


Job = Count | Look | Write


@dataclass(slots=True)
class Found:
    """What a look at a part has found. Lines are counted from 1 at its beginning."""

    lines: int = 0
    rows: int = 0
    taken: int = 0
    plain: bool = True
    """Whether all that is taken can be written without being decoded."""
    size: int = 0
    """Bytes that the rows taken become."""
    problems: RowProblems = field(default_factory=RowProblems)
    unknown_params: set[str] = field(default_factory=set)
    measures: RowMeasures = field(default_factory=RowMeasures)


class Hand:
    """Does jobs for some datasets."""

    def __init__(self, datasets: tuple[DatasetRows, ...]) -> None:
        self._datasets = datasets
        self._looking: dict[int, _Looking] = {}

    def do(self, job: Job) -> Any:
        """The number of rows (`Count`), what was `Found` (`Look`), or nothing."""
        if isinstance(job, Count):
            return sum(
                1 for line in lines_of(job.part) if isinstance(line, TooLong) or line.strip()
            )
        if isinstance(job, Look):
            if job.dataset not in self._looking:
                self._looking[job.dataset] = _Looking(self._datasets[job.dataset])
            return self._looking[job.dataset].at(job.part, job.first_row)
        return _write(self._datasets[job.dataset], job)


class _Looking:
    """Looks at the parts of one dataset."""

    def __init__(self, rows: DatasetRows) -> None:
        self._rows = rows
        self._check = RowCheck(rows.doors)
        self._writer = Writer(rows)
        self._count_tokens = tokenizer_at(rows.tokenizer) if rows.tokenizer else None

    def at(self, part: Part, first_row: int) -> Found:
        """Check every row of a part; measure those that the dataset takes."""
        found = Found(measures=RowMeasures(self._count_tokens))
        self._check.unknown_params.clear()
        good: list[Any] = []
        numbers: list[int] = []
        plain_bytes = plain_lines = 0
        for number, line in enumerate(lines_of(part), start=1):
            found.lines = number
            if isinstance(line, TooLong):
                told = f"{line.size:,} bytes, and a row may have {MAX_ROW_BYTES:,}"
                found.problems.add(part.path, number, told)
                found.rows += 1
                continue
            row = self._checked(line, number, part, found)
            if row is None:
                continue
            if self._rows.takes(first_row + found.rows - 1):
                good.append(row)
                numbers.append(number)
                if self._writer.is_plain(line, row):
                    plain_lines += 1
                    plain_bytes += len(line)
                else:
                    found.plain = False
                    found.size += len(self._writer.any(line))
        found.taken = len(good)
        found.size += self._writer.plain_size(plain_lines, plain_bytes)
        found.unknown_params |= self._check.unknown_params
        self._measure(good, numbers, part, found)
        return found

    def _checked(self, line: bytes, number: int, part: Part, found: Found) -> Any:
        """The row of a line, filled into the prompt; None when it is no good, or there is none."""
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if not line.strip():
                return None
            found.rows += 1
            why = f"not JSON ({error})"
            if number == 1 and part.start == 0:
                why = next(read_jsonl(part.path)).error or why  # it may be no text at all
            found.problems.add(part.path, number, why)
            return None
        found.rows += 1
        if self._rows.prompt is not None and isinstance(row, dict):
            try:
                row = fill_row(self._rows.prompt, row)
            except ValueError as error:
                found.problems.add(part.path, number, str(error))
                return None
        if self._check.passes(row):
            return row
        for problem in self._check.problems(Line(number, row)):
            found.problems.add(part.path, number, problem)
        return None

    def _measure(self, rows: list[Any], numbers: list[int], part: Part, found: Found) -> None:
        try:
            found.measures.add(rows)
        except RecursionError:
            for row, number in zip(rows, numbers, strict=True):
                try:
                    RowMeasures().add([row])
                except RecursionError:
                    found.problems.add(part.path, number, "nested too deeply")


def _write(rows: DatasetRows, job: Write) -> None:
    writer = Writer(rows)
    lines = (line for line in lines_of(job.part) if isinstance(line, bytes))
    mine = taken(rows, lines, job.first_row)
    made = writer.plain(mine) if job.plain else b"".join(map(writer.any, mine))
    if len(made) != job.size:
        raise RunFailed(
            f"{rows.path} has changed while it was prepared",
            hint="prepare it again when it is done",
        )
    for path, offset in job.targets:
        with path.open("r+b", buffering=0) as file:
            at = 0
            while at < len(made):
                at += os.pwrite(file.fileno(), memoryview(made)[at:], offset + at)
