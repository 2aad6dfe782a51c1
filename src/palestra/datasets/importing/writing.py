"""Build rows one by one, check each, and write all of them or nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from palestra.datasets.preparing.outputs import Outputs
from palestra.datasets.problems import RowProblems
from palestra.datasets.request_models import RowEndpoint
from palestra.datasets.row_checks import RowCheck
from palestra.errors import InputDataError
from palestra.schema import JsonDict, Line


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of rows that was written."""

    path: Path
    rows: int


def write_rows(
    sources: Sequence[Path],
    reader: Callable[[Path], Iterable[Line]],
    make: Callable[[Any], JsonDict],
    output: Path,
    *,
    doors: Sequence[RowEndpoint] = (),
    prompt: Path | None = None,
) -> RowFile:
    """Convert each record that `reader` yields of the sources with `make`, and write the rows. `make`
    raises ValueError for a record that it cannot convert.

    `prompt`: the file of the prompt's template, which is a source too.

    Raises InputDataError that lists every record without a valid row; no file is written then.
    """
    files = [*sources, *([] if prompt is None else [prompt])]
    if output.resolve() in {file.resolve() for file in files}:
        raise InputDataError(f"{output} would replace its own source")
    problems = RowProblems()
    check = RowCheck(doors)
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        for source in sources:
            for record in reader(source):
                row = _written_file(record, make, check, source, problems)
                if row is not None:
                    count += 1
                    yield orjson.dumps(row) + b"\n"

    with Outputs() as outputs:
        write = outputs.make(output)
        for line in lines():
            write(line)
        problems.raise_if_any(hint="nothing was written; fix these rows, or remove them")
        if not count:
            names = " and ".join(map(str, sources))
            raise InputDataError(f"{names} {'has' if len(sources) == 1 else 'have'} no rows")
        outputs.put_in_place()
    return RowFile(output, count)


def _written_file(
    record: Line,
    make: Callable[[Any], JsonDict],
    check: RowCheck,
    source: Path,
    problems: RowProblems,
) -> JsonDict | None:
    if record.error:
        problems.add(source, record.number, record.error)
        return None
    try:
        row = make(record.row)
    except ValueError as error:
        problems.add(source, record.number, str(error))
        return None
    if check.passes(row):
        return row
    for problem in check.problems(Line(record.number, row)):
        problems.add(source, record.number, problem)
    return None
