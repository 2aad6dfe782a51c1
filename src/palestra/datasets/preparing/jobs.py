"""What is done with a part of a file: count its rows, look at each, write them."""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import orjson

from palestra.datasets.measures import RowMeasures
from palestra.datasets.preparing.outputs import telling
from palestra.datasets.preparing.parts import Part, TooLong, blocks_of, texts_of
from palestra.datasets.preparing.rows import DatasetRows, Writer, taken, tokenizer_at
from palestra.datasets.problems import RowProblems
from palestra.datasets.prompts import fill_row
from palestra.datasets.row_checks import TOO_DEEP, RowCheck
from palestra.errors import InputDataError, RunFailed
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
    solid: bool
    size: int
    targets: tuple[tuple[Path, int], ...]


Job = Count | Look | Write

MEASURED_AT_ONCE: Final = 256
"""Rows: enough to be measured fast, few enough to be held."""


@dataclass(slots=True)
class Found:
    """What a look at a part has found. Lines are counted from 1 at its beginning."""

    lines: int = 0
    rows: int = 0
    taken: int = 0
    plain: bool = True
    """Whether all that is taken can be written without being decoded."""
    solid: bool = True
    """Whether every line is a row, and taken."""
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
        with _no_garbage(), _read(job.part.path):
            return self._do(job)

    def _do(self, job: Job) -> Any:
        if isinstance(job, Count):
            lines = (line for block in blocks_of(job.part) for line in block)
            return sum(1 for line in lines if isinstance(line, TooLong) or line.strip())
        if isinstance(job, Look):
            if job.dataset not in self._looking:
                self._looking[job.dataset] = _Looking(self._datasets[job.dataset])
            return self._looking[job.dataset].at(job.part, job.first_row)
        return _write(self._datasets[job.dataset], job)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Rows hold no cycles: looking for some among them takes as long as all the rest."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def _read(path: Path) -> Iterator[None]:
    """Trouble of the disk, where nothing else is told of it, is that of reading rows."""
    try:
        yield
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error.strerror or error}") from error


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
        for block in blocks_of(part):
            self._look(block, first_row, part, found, good, numbers)
            if len(good) >= MEASURED_AT_ONCE:
                self._measure(good, numbers, part, found)
        self._measure(good, numbers, part, found)
        found.solid = found.lines == found.taken
        found.unknown_params |= self._check.unknown_params
        return found

    def _look(
        self,
        block: list[bytes | TooLong],
        first_row: int,
        part: Part,
        found: Found,
        good: list[Any],
        numbers: list[int],
    ) -> None:
        plain_bytes = plain_lines = 0
        passes, is_plain, takes = self._check.passes, self._writer.is_plain, self._rows.takes
        sliced, filled = self._rows.sliced, self._rows.prompt is not None
        for number, line in enumerate(block, start=found.lines + 1):
            if isinstance(line, TooLong):
                told = f"{line.size:,} bytes, and a row may have {MAX_ROW_BYTES:,}"
                found.problems.add(part.path, number, told)
                found.rows += 1
                continue
            try:
                row = None if filled else orjson.loads(line)
            except orjson.JSONDecodeError:
                row = None
            if row is not None and passes(row):
                found.rows += 1
            else:
                row = self._looked_at_closely(line, number, part, found)
                if row is None:
                    continue
            if sliced and not takes(first_row + found.rows - 1):
                continue
            found.taken += 1
            good.append(row)
            numbers.append(number)
            if is_plain(line, row):
                plain_lines += 1
                plain_bytes += len(line)
            else:
                found.plain = False
                found.size += len(self._writer.any(line))
        found.lines += len(block)
        found.size += self._writer.plain_size(plain_lines, plain_bytes)

    def _looked_at_closely(self, line: bytes, number: int, part: Part, found: Found) -> Any:
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
        """Measure these rows, which stand in these lines; and forget them."""
        try:
            found.measures.add(rows)
        except RecursionError:
            for row, number in zip(rows, numbers, strict=True):
                try:
                    RowMeasures().add([row])
                except RecursionError:
                    found.problems.add(part.path, number, TOO_DEEP)
        rows.clear()
        numbers.clear()


def _write(rows: DatasetRows, job: Write) -> None:
    with ExitStack() as stack:
        files = [
            (stack.enter_context(path.open("r+b", buffering=0)), offset)
            for path, offset in job.targets
        ]
        done = 0
        for made in _made(rows, job):
            for file, offset in files:
                _put(file, made, offset + done)
            done += len(made)
            if done > job.size:
                break  # over the rows of others, which are written again
    if done != job.size:
        raise rows_changed(rows.path)


def rows_changed(path: Path) -> RunFailed:
    """What was looked at is not what would be written."""
    return RunFailed(
        f"{path} has changed while it was prepared",
        hint="nothing was written; prepare it again when nobody writes to it",
    )


def _made(rows: DatasetRows, job: Write) -> Iterator[bytes]:
    """What becomes of a part, a block at a time."""
    writer = Writer(rows)
    if job.plain and job.solid:
        yield from (writer.solid(text) for text in texts_of(job.part) if isinstance(text, bytes))
        return
    number = job.first_row
    for block in blocks_of(job.part):
        lines = [line for line in block if isinstance(line, bytes) and line and not line.isspace()]
        mine = taken(rows, lines, number)
        number += len(lines)
        yield writer.plain(mine) if job.plain else b"".join(map(writer.any, mine))


def _put(file: IO[bytes], text: bytes, offset: int) -> None:
    view = memoryview(text)
    with telling(Path(file.name)):
        while view:
            written = os.pwrite(file.fileno(), view, offset)
            view, offset = view[written:], offset + written
