"""Evidence: the lines of files that show what a finding says."""

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from palestra.config import MASK, is_secret_name
from palestra.doctor.findings import Quote, quote

LONGEST_LINE: Final = 2_000_000
"""Bytes of a line that are read to quote it."""
MOST_QUOTES: Final = 5
_NAMED: Final = re.compile(r"'([^']{2,100})'|(?<![\w/.-])([A-Za-z_][\w-]*(?:\.[\w-]+)+)")
"""What a message names: a quoted word, or a dotted key that is no part of a path."""


def quote_line(path: Path, line: int, *, pointer: str = "", text: str | None = None) -> Quote:
    """Line `line` of a file; `text` is said in its place. Nothing is quoted of what is gone."""
    return quote(path, line_of(path, line) if text is None else text, line=line, pointer=pointer)


def line_of(path: Path, number: int) -> str:
    """The line `number`, from 1, as text; empty when there is none."""
    try:
        with path.open("rb") as file:
            found = next(islice(file, number - 1, number), b"")
    except OSError:
        return ""
    return found[:LONGEST_LINE].decode("utf-8", "replace").strip("\r\n")


def quote_named(message: str, files: Iterable[Path]) -> tuple[Quote, ...]:
    """The lines of `files` that hold what `message` names, such as a misspelt reference."""
    words = [a or b.rpartition(".")[2] for a, b in _NAMED.findall(message)]
    found: dict[tuple[Path, int], Quote] = {}
    for word in dict.fromkeys(words):
        pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        for path in files:
            for number, text in _lines(path):
                if pattern.search(text) and not text.lstrip().startswith("#"):
                    found.setdefault((path, number), quote(path, _shown(text), line=number))
                    break
    return tuple(found.values())[:MOST_QUOTES]


def quote_places(message: str) -> tuple[Quote, ...]:
    """The lines of config files that `message` names by their numbers."""
    found = [(Path(path), int(line)) for path, line in _PLACE.findall(message)]
    return tuple(quote(path, _shown(line_of(path, line)), line=line) for path, line in found)


_PLACE: Final = re.compile(r"(/\S+\.\w+),? line (\d+)")


def _shown(text: str) -> str:
    """A line of a config file, without the value of what is secret by its name."""
    key, colon, _ = text.strip().partition(":")
    return f"{key}: {MASK}" if colon and is_secret_name(key.strip("- '\"")) else text.strip()


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        return list(enumerate(path.read_text(encoding="utf-8").splitlines(), start=1))
    except (OSError, UnicodeDecodeError):
        return []
