"""Select a dataset's rows from a file, check them, and build their output lines."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, final

from palestra.datasets.measures.rows import RowMeasures
from palestra.datasets.problems import RowProblems
from palestra.datasets.prompts import PromptTemplate, fill_row
from palestra.datasets.request_models import RowEndpoint
from palestra.datasets.row_checks import TOO_DEEP, RowCheck
from palestra.errors import ConfigError, InputDataError, require_extra
from palestra.schema import AGENT_REF, JsonDict, Line, read_jsonl

AGENT_TYPE: Final = "responses_api_agents"
MEASURED_ROWS: Final = 256
"""The number of rows measured in one batch: large enough to be fast, small enough to hold in
memory."""
MEASURED_BYTES: Final = 8 << 20
"""The maximum size of one batch in bytes, so batches of long rows are smaller."""


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """The rows of one dataset: rows `start` (inclusive) to `end` (exclusive) of a file, counted
    from 0.
    """

    path: Path
    agent: str
    repeats: int = 1
    start: int = 0
    end: int | None = None
    prompt: PromptTemplate | None = None
    """The template that is filled from rows without an input of their own."""
    doors: tuple[RowEndpoint, ...] = ()
    tokenizer: Path | None = None

    def takes(self, number: int) -> bool:
        """Whether row `number` of the file, counted from 0, belongs to the dataset."""
        return number >= self.start and (self.end is None or number < self.end)

    @property
    def reference(self) -> dict[str, str]:
        """The `agent_ref` that is written into the dataset's rows."""
        return {"type": AGENT_TYPE, "name": self.agent}


@final
@dataclass(slots=True)
class TakenRows:
    """One pass over a dataset's rows: check, measure, and encode each row."""

    rows: DatasetRows
    problems: RowProblems
    """Collects the problems of bad rows."""
    count: int = 0
    """The number of rows read from the file, including rows that do not belong to the dataset."""
    measures: RowMeasures = field(init=False)
    _check: RowCheck = field(init=False)
    _ending: bytes = field(init=False)

    def __post_init__(self) -> None:
        tokenizer = self.rows.tokenizer
        self.measures = RowMeasures(tokenizer_at(tokenizer) if tokenizer else None)
        self._check = RowCheck(self.rows.doors)
        self._ending = f', "{AGENT_REF}": {json.dumps(self.rows.reference)}}}'.encode()

    def lines(self) -> Iterator[bytes]:
        """Yield the output lines of the selected rows, each with its agent. Raises InputDataError:
        the file cannot be read.
        """
        numbers: list[int] = []
        rows: list[Any] = []
        size = 0
        for line in _read_lines(self.rows.path):
            row = self._row(line)
            self.count += 1
            if row is None or not self.rows.takes(self.count - 1):
                continue
            numbers.append(line.number)
            rows.append(row)
            size += len(line.text)
            yield self._line(line.text, row)
            if len(rows) == MEASURED_ROWS or size > MEASURED_BYTES:
                self._measure(numbers, rows)
                numbers, rows, size = [], [], 0
        self._measure(numbers, rows)

    def _row(self, line: Line) -> Any:
        """Return the line's row, with the prompt template filled in; None for a bad row."""
        if not line.error and self.rows.prompt is not None and isinstance(line.row, dict):
            try:
                line = replace(line, row=fill_row(self.rows.prompt, line.row))
            except ValueError as error:
                self.problems.add(self.rows.path, line.number, str(error))
                return None
        if not line.error and self._check.passes(line.row):
            return line.row
        for problem in self._check.problems(line):
            self.problems.add(self.rows.path, line.number, problem)
        return None

    def _line(self, line: bytes, row: Any) -> bytes:
        """Return the output line of a row. The original bytes are kept where possible."""
        text = line.strip()
        if self.rows.prompt is not None:
            encoded = self._dumped(fill_row(self.rows.prompt, json.loads(text)))
        elif AGENT_REF not in row:
            encoded = text[:-1] + self._ending
        elif row[AGENT_REF] == self.rows.reference:
            encoded = text
        else:
            encoded = self._dumped(json.loads(text))
        return encoded + b"\n"

    def _dumped(self, row: JsonDict) -> bytes:
        # Python's own coder keeps numbers of any size as they are.
        return json.dumps({**row, AGENT_REF: self.rows.reference}).encode()

    def _measure(self, numbers: list[int], rows: list[Any]) -> None:
        """Measure the rows. `numbers`: their line numbers, for error messages."""
        try:
            self.measures.add(rows)
        except RecursionError:
            for number, row in zip(numbers, rows, strict=True):
                try:
                    RowMeasures().add([row])
                except RecursionError:
                    self.problems.add(self.rows.path, number, TOO_DEEP)


def _read_lines(path: Path) -> Iterator[Line]:
    try:
        yield from read_jsonl(path)
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error.strerror or error}") from error


def tokenizer_at(path: Path) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text. Raises ConfigError: the `tokenizers`
    package is not installed, or `path` has no valid tokenizer.
    """
    require_extra("tokenizers", extra="tokenizers", what="counting tokens")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain exceptions
        raise ConfigError(
            f"tokenizer {path}: {error}", hint="the tokenizer.json of a model, or its folder"
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
