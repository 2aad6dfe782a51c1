"""What a run left behind, as observations: each one says something, and where it stands.

Nothing is decided here. `logs` reads what commands printed, `outputs` the files of a run, `slurm`
what a job's state is; `diagnose` makes of it what went wrong.
"""

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.config import mask_line
from palestra.doctor.findings import Quote, quote
from palestra.errors import FieldProblem, Layer, RowIdentity
from palestra.schema import JsonObject

DEEPEST: Final = 20
"""Texts within texts that are unwrapped."""
MOST_PLACES: Final = 3
LONGEST_LINE: Final = 20_000
"""Bytes of a line that are read to quote it."""


class Rank(IntEnum):
    """How near to the cause an observation is, the nearest first."""

    ENDED = 0
    """The error that ended the command."""
    FAILURE = 1
    """What ended a rollout."""
    EXCEPTION = 2
    """An exception, or an error, in a log."""
    LINE = 3
    """Another line that tells something."""
    RELAY = 4
    """Passes on what failed elsewhere: heard only when nothing else speaks."""


@dataclass(frozen=True, slots=True)
class LogObservation:
    """Something that was said, in one line, or seen between files (`cause` is set then).

    `layer` is the one that was recorded with it; `recovered` tells that another attempt succeeded.
    """

    text: str
    quotes: tuple[Quote, ...]
    rank: Rank
    layer: Layer | None = None
    cause: str = ""
    row: RowIdentity | None = None
    problems: tuple[FieldProblem, ...] = ()
    recovered: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LogReading:
    """What a log says. `outputs`: the rollouts files that its command wrote, as it named them."""

    path: Path
    lines: int
    observations: tuple[LogObservation, ...]
    noise: int = 0
    """Lines that servers say whenever they stop."""
    outputs: tuple[str, ...] = ()


def one_line(text: str) -> str:
    """`text` without line breaks."""
    return " ".join(text.split())


_INNER: Final = re.compile(r"calling an inner server: (b?)(['\"])(.*)\2", re.DOTALL)
_SAYING: Final = ("error", "detail", "message", "msg")


def innermost(text: str) -> str:
    """What a text that quotes a text that quotes a text has at its innermost.

    Servers of the field answer with the body of the server that they called, as a literal within
    JSON within a literal; of a JSON error the sentence is taken.
    """
    for _ in range(DEEPEST):
        inner = _unwrapped(text)
        if inner is None or inner == text:
            break
        text = inner
    return one_line(text)


def _unwrapped(text: str) -> str | None:
    """One layer off `text`; None when there is none."""
    if match := _INNER.search(text):
        literal = f"{match[1]}{match[2]}{match[3]}{match[2]}"
        try:
            value = ast.literal_eval(literal)
        except (SyntaxError, ValueError):
            return match[3]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    stripped = text.strip()
    if not stripped.startswith(("{", "[", '"')):
        return None
    try:
        return _sentence(orjson.loads(stripped))
    except orjson.JSONDecodeError:
        return None


def _sentence(value: Any) -> str | None:
    """The sentence of an error's body."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return _sentence(value[0])
    if isinstance(value, Mapping):
        sentences = (_sentence(value[name]) for name in _SAYING if value.get(name))
        return next(filter(None, sentences), None)
    return None


_PLACES: Final = (
    re.compile(r"(?P<path>/\S+\.(?:py|ya?ml|jsonl?|toml)):(?P<line>\d+)"),
    re.compile(r"(?P<path>/\S+\.(?:ya?ml|jsonl?)),? line (?P<line>\d+)"),
)
_BAD_ROWS: Final = re.compile(r"(?P<path>/\S+): [\d,]+ rows? cannot be used")
_BAD_ROW: Final = re.compile(r"\bline (?P<line>\d+): (?P<pointer>/\S*(?=: ))?")


def quoted_places(text: str) -> tuple[Quote, ...]:
    """The lines of files that a message names, as they stand there now."""
    matches = [
        (m["path"], int(m["line"]), "") for pattern in _PLACES for m in pattern.finditer(text)
    ]
    if rows := _BAD_ROWS.search(text):
        listed = _BAD_ROW.finditer(text, rows.end())
        matches += [(rows["path"], int(m["line"]), m["pointer"] or "") for m in listed]
    unique = dict.fromkeys((path, line, pointer) for path, line, pointer in matches)
    quotes = (
        quote(path, shown_line(Path(path), line_at(Path(path), line)), line=line, pointer=pointer)
        for path, line, pointer in itertools.islice(unique, MOST_PLACES)
    )
    return tuple(quotes)


def shown_line(path: Path, line: str) -> str:
    """A line of a file as it may be shown: of a config, without what is secret by its name."""
    return mask_line(line) if path.suffix in {".yaml", ".yml"} else line


def line_at(path: Path, number: int) -> str:
    """Line `number` of a file, from 1; empty where there is none."""
    try:
        with path.open("rb") as file:
            line_bytes = next(itertools.islice(file, number - 1, number), b"")
    except OSError:
        return ""
    return line_bytes[:LONGEST_LINE].decode("utf-8", "replace").strip()


def chain(hops: list[JsonObject]) -> str:
    """`agent/run > environment/verify > judge/v1/responses`: the way to a failure.

    The endpoint behind a model server is not on it: the message names it.
    """
    names: list[str] = []
    servers: set[str] = set()
    for hop in hops:
        server, url = str(hop.get("server", "")), str(hop.get("url", ""))
        path = "/" + url.split("://", 1)[-1].partition("/")[2]
        if server in servers and names[-1].startswith(f"{server}/"):
            continue
        servers.add(server)
        names.append(f"{server}{path}")
    return " > ".join(names)


def json_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Line number and value of each line of `path` that is JSON."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
