"""Whether the rows of runs have the field that `--group-by` names."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

import msgspec

from palestra.analysis import no_group, split_row
from palestra.config import did_you_mean
from palestra.errors import ConfigError, InputDataError
from palestra.schema import RunPaths, open_packed, with_compressed
from palestra.viewer.conversation import decoded
from palestra.viewer.discovery import RunPlace

FIRST_ROWS: Final = 100
"""Of each file so many rows are read: most files have the same fields in all rows."""
MOST_ROWS: Final = 2_000
"""Of all files together so many rows are read."""
MOST_NAMED: Final = 12


def check_group_field(run_places: Sequence[RunPlace], name: str) -> None:
    """Raise ConfigError: no row of any run has a text in the field.

    It is raised only when all files are short enough to be read to their ends. Otherwise the index
    decides: see `OpenRun.group_error`. Runs without a row so far say nothing.
    """
    sample = _FieldSample(name)
    sample.read(run_places)
    if sample.rows and sample.is_whole and not sample.has_field:
        raise sample.error()


def group_error(run_place: RunPlace, name: str) -> ConfigError:
    """Return the error that no row of a run has a text in the field, and which fields have one."""
    sample = _FieldSample(name)
    sample.read([run_place])
    return sample.error()


@dataclass(slots=True)
class _FieldSample:
    """The first rows of files, until one has a text in the field. Only names are kept."""

    name: str
    """The field; with dots, its path."""
    rows: int = 0
    is_whole: bool = True
    """Whether every file was read to its end."""
    has_field: bool = False
    names: dict[str, None] = field(default_factory=dict)
    """The fields that have a text."""

    def read(self, run_places: Iterable[RunPlace]) -> None:
        """Read until a row has the field, or enough rows are read."""
        for path in _files_of(run_places):
            if self.rows >= MOST_ROWS:
                self.is_whole = False
                return
            try:
                self._read_file(path)
            except (OSError, EOFError, zlib.error):  # the page of the run shows why
                self.is_whole = False
            if self.has_field:
                return

    def _read_file(self, path: Path) -> None:
        with open_packed(path) as file:
            for number, line in enumerate(file):
                if number == FIRST_ROWS:
                    self.is_whole = False
                    return
                self._add(split_row(line) or {})
                if self.has_field:
                    return

    def _add(self, row: dict[str, msgspec.Raw]) -> None:
        self.rows += 1
        outer, *inner = self.name.split(".")
        self.has_field = outer in row and _has_text(row[outer], inner)
        texts = (name for name, raw in row.items() if bytes(memoryview(raw)[:1]) == b'"')
        self.names.update(dict.fromkeys(name for name in texts if not name.startswith("_")))

    def error(self) -> ConfigError:
        """Return the error with the most similar field; its hint names the nearest first."""
        nearest = sorted(
            self.names, key=lambda name: -SequenceMatcher(None, name, self.name).ratio()
        )
        further = f" and {len(nearest) - MOST_NAMED} more" if len(nearest) > MOST_NAMED else ""
        similar = did_you_mean(self.name, self.names)
        return ConfigError(
            f"--group-by: {no_group(self.name, similar)}",
            hint=f"fields with a text: {', '.join(nearest[:MOST_NAMED]) or 'none'}{further}",
        )


def _files_of(run_places: Iterable[RunPlace]) -> Iterator[Path]:
    """Yield the files of rows that there are: those that the index takes the field from."""
    for run_place in run_places:
        for output in run_place.outputs:
            paths = RunPaths(output)
            files = (paths.output, paths.materialized_inputs, paths.failures)
            yield from filter(None, map(with_compressed, files))


def _has_text(raw: msgspec.Raw, inner: Sequence[str]) -> bool:
    """Whether the path `inner` leads from a value to a text."""
    value: Any
    try:
        value = decoded(bytes(raw))
    except InputDataError:
        return False
    for name in inner:
        value = value.get(name) if isinstance(value, dict) else None
    return isinstance(value, str)
