"""Which rows of a file a dataset takes, what they are held to, and what becomes of their lines."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, final

from palestra.datasets.extras import needs
from palestra.datasets.measures.rows import RowMeasures
from palestra.datasets.problems import RowProblems
from palestra.datasets.prompts import PromptTemplate, fill_row
from palestra.datasets.request_models import RowEndpoint
from palestra.datasets.row_checks import TOO_DEEP, RowCheck
from palestra.errors import ConfigError, InputDataError
from palestra.schema import AGENT_REF, JsonDict, Line, read_jsonl

AGENT_TYPE: Final = "responses_api_agents"
MEASURED_ROWS: Final = 256
"""Enough to be measured fast at once, few enough to be held."""
MEASURED_BYTES: Final = 8 << 20
"""Of rows that are long, fewer are held."""


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """The rows of one dataset: numbers `start` to before `end` of a file, from 0."""

    path: Path
    agent: str
    repeats: int = 1
    start: int = 0
    end: int | None = None
    prompt: PromptTemplate | None = None
    """What rows without an input of their own are filled into."""
    doors: tuple[RowEndpoint, ...] = ()
    tokenizer: Path | None = None

    def takes(self, number: int) -> bool:
        """Whether row `number` of the file, from 0, is one of its rows."""
        return number >= self.start and (self.end is None or number < self.end)

    @property
    def reference(self) -> dict[str, str]:
        """The `agent_ref` of its rows."""
        return {"type": AGENT_TYPE, "name": self.agent}


@final
@dataclass(slots=True)
class TakenRows:
    """One pass over the rows of a dataset: each is checked, measured, and made ready to be written."""

    rows: DatasetRows
    problems: RowProblems
    """Gets what is wrong with rows."""
    count: int = 0
    """Rows of the file, those too that the dataset does not take."""
    measures: RowMeasures = field(init=False)
    _check: RowCheck = field(init=False)
    _ending: bytes = field(init=False)

    def __post_init__(self) -> None:
        tokenizer = self.rows.tokenizer
        self.measures = RowMeasures(tokenizer_at(tokenizer) if tokenizer else None)
        self._check = RowCheck(self.rows.doors)
        self._ending = f', "{AGENT_REF}": {json.dumps(self.rows.reference)}}}'.encode()

    @property
    def unknown_params(self) -> set[str]:
        """Parameters of requests that we do not know."""
        return self._check.unknown_params

    def lines(self) -> Iterator[bytes]:
        """The lines of the rows that are taken, each with its agent. Raises InputDataError."""
        numbers: list[int] = []
        rows: list[Any] = []
        size = 0
        for line in _read(self.rows.path):
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
        """The row of a line, filled into the prompt; None when it is no good."""
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
        """A line as it is to be written: its bytes stay as they are where that is possible."""
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
        """Measure these rows, which stand in these lines."""
        try:
            self.measures.add(rows)
        except RecursionError:
            for number, row in zip(numbers, rows, strict=True):
                try:
                    RowMeasures().add([row])
                except RecursionError:
                    self.problems.add(self.rows.path, number, TOO_DEEP)


def _read(path: Path) -> Iterator[Line]:
    try:
        yield from read_jsonl(path)
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error.strerror or error}") from error


def tokenizer_at(path: Path) -> Callable[[str], int]:
    """What counts a text's tokens. Raises ConfigError without the package, or a tokenizer there."""
    needs("tokenizers", extra="tokenizers", what="counting tokens")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain exceptions
        raise ConfigError(
            f"tokenizer {path}: {error}", hint="the tokenizer.json of a model, or its folder"
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
