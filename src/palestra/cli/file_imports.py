"""Make rows for an environment in one file: those that its prompt and its methods take."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.api import EvaluationTarget, find_target
from palestra.cli.console import notice
from palestra.config import NamedFile
from palestra.datasets import BadRows, ColumnMapping, RowProblems, records_of
from palestra.errors import BadInput, ConfigError, InputDataError
from palestra.schema import CREATE_PARAMS, EXPECTED_ANSWER, JsonDict, Line
from palestra.settings import EvalArgs
from palestra.system import shown

NOTHING_WRITTEN: Final = "nothing was written; fix these rows, or remove them"


@dataclass(frozen=True)
class EnvironmentRows:
    """The rows of an environment in one file, made of the records of other files."""

    target: EvaluationTarget
    lines: Mapping[Path, Sequence[Line]]
    """The rows of each source, with the lines of their records."""

    def of(self, source: Path) -> Iterator[Line]:
        """Yield the rows of a source."""
        yield from self.lines[source]


def rows_for_file(
    environment: str,
    sources: Sequence[Path],
    columns: ColumnMapping,
    overrides: list[str],
) -> EnvironmentRows:
    """Return the rows that an environment in one file makes of the records of `sources`.

    The records are tried as they are, with mapped columns alone; then with what a chat or a usual
    name of answers gives. The first form that the environment takes is used.

    Raises BadInput: a record gives no row, or the environment takes none of the forms.
    """
    records = {source: list(records_of(source)) for source in sources}
    errors: list[BadInput] = []
    tried: list[bytes] = []
    for request, guess in product((False, True), repeat=2):
        make = partial(columns.row, request=request, guess=guess)
        rows, problems = _converted(records, make)
        try:
            problems.raise_if_any(hint=NOTHING_WRITTEN)
        except BadRows as error:
            # A later form may fit no record at all: the records are of another form.
            if not errors or any(rows.values()):
                raise
            errors.append(error)
            continue
        content = orjson.dumps([line.row for lines in rows.values() for line in lines])
        if content in tried:
            continue
        tried.append(content)
        try:
            return _accepted(environment, rows, columns, overrides)
        except BadInput as error:
            errors.append(error)
    raise errors[0]


def _converted(
    records: Mapping[Path, Sequence[Line]], make: Callable[[Any], JsonDict]
) -> tuple[dict[Path, list[Line]], RowProblems]:
    """Return the rows of each source, and the problems of the records that give none."""
    problems = RowProblems()
    rows: dict[Path, list[Line]] = {source: [] for source in records}
    for source, of_source in records.items():
        for record in of_source:
            try:
                if record.error:
                    raise ValueError(record.error)
                rows[source].append(Line(record.number, make(record.row)))
            except ValueError as error:
                problems.add(source, record.number, str(error))
    return rows, problems


def _accepted(
    environment: str,
    rows: Mapping[Path, Sequence[Line]],
    columns: ColumnMapping,
    overrides: list[str],
) -> EnvironmentRows:
    """Return the rows that the environment makes. Raises BadInput: it does not take them."""
    warnings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="palestra-import-") as folder:
        copies = {
            source: Path(folder) / f"{number:06}_{source.stem}.jsonl"
            for number, source in enumerate(rows)
        }
        for source, copy in copies.items():
            copy.write_bytes(_padded(rows[source]))

        def in_sources(text: str) -> str:
            for source, copy in copies.items():
                text = text.replace(str(copy), shown(source))
            return text

        try:
            args = EvalArgs(target=environment, input=f"{folder}/*.jsonl")
            target = find_target(args, overrides, warnings.append)
        except BadInput as error:
            hint = in_sources(error.hint)
            is_of_rows = isinstance(error, InputDataError) and any(rows.values())
            if is_of_rows and columns.answer and EXPECTED_ANSWER not in error.message:
                hint = (
                    f"--answer gives the field {EXPECTED_ANSWER}; another one is written as "
                    f"--map FIELD={columns.answer}"
                )
            kind = ConfigError if isinstance(error, ConfigError) else InputDataError
            raise kind(in_sources(error.message), hint=hint, cause=error.cause) from error
    task_rows = iter(target.rows or ())
    lines = {
        source: [_checked(line, next(task_rows)) for line in of_source]
        for source, of_source in rows.items()
    }
    if all(line.row for of_source in lines.values() for line in of_source):
        for warning in warnings:
            notice(in_sources(warning))
    if columns.prompt is not None:
        _refuse_useless_prompt(environment, rows, lines)
    return EnvironmentRows(target, lines)


def _padded(lines: Sequence[Line]) -> bytes:
    """Return rows as JSONL in which each has the line that it has in its source, for messages."""
    text = bytearray()
    number = 1
    for line in lines:
        text += b"\n" * (line.number - number) + orjson.dumps(line.row) + b"\n"
        number = line.number + 1
    return bytes(text)


def _checked(line: Line, row: JsonDict) -> Line:
    """Return a row with its line, or the problem that the model is asked nothing."""
    items = row[CREATE_PARAMS].get("input")
    texts = (
        [items]
        if isinstance(items, str)
        else [item["content"] for item in items or () if item.get("role") == "user"]
    )
    if texts and isinstance(texts[-1], str) and not texts[-1].strip():
        return Line(line.number, None, "the prompt is empty")
    return Line(line.number, row)


def _refuse_useless_prompt(
    environment: str,
    rows: Mapping[Path, Sequence[Line]],
    prompted: Mapping[Path, Sequence[Line]],
) -> None:
    """Raise ConfigError when the environment has replaced the prompt that the user named."""
    for source, lines in rows.items():
        for before, after in zip(lines, prompted[source], strict=True):
            if (
                after.row
                and after.row[CREATE_PARAMS]["input"] != before.row[CREATE_PARAMS]["input"]
            ):
                file = NamedFile.parse(environment)
                raise ConfigError(
                    f"--prompt has no effect: {file.path if file else environment} has a prompt of "
                    "its own",
                    hint="leave --prompt out",
                )
