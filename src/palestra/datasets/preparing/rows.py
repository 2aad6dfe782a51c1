"""Which rows of a file a dataset takes, what they are held to, and what becomes of their lines."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.datasets.extras import needs
from palestra.datasets.prompts import PromptTemplate, fill_row
from palestra.datasets.request_models import Door
from palestra.errors import ConfigError
from palestra.schema import AGENT_REF

AGENT_TYPE: Final = "responses_api_agents"


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
    doors: tuple[Door, ...] = ()
    tokenizer: Path | None = None

    @property
    def sliced(self) -> bool:
        """Whether where a row stands decides on it."""
        return bool(self.start) or self.end is not None

    def takes(self, number: int) -> bool:
        """Whether row `number` of the file, from 0, is one of its rows."""
        return number >= self.start and (self.end is None or number < self.end)

    @property
    def reference(self) -> dict[str, str]:
        """The `agent_ref` of its rows."""
        return {"type": AGENT_TYPE, "name": self.agent}


class Writer:
    """Makes of a dataset's lines those that are run: each with its agent, and repeated."""

    def __init__(self, rows: DatasetRows) -> None:
        self._rows = rows
        self._ending = f', "{AGENT_REF}": {json.dumps(rows.reference)}}}'.encode()

    def is_plain(self, line: bytes, row: Any) -> bool:
        """Whether its bytes stay as they are, and only the agent is added at their end."""
        return (
            self._rows.prompt is None
            and line[0] == ord("{")
            and line[-1] == ord("}")
            and AGENT_REF not in row
        )

    def plain_size(self, lines: int, size: int) -> int:
        """What so many plain lines of so many bytes become, line breaks included."""
        # The closing brace goes into the ending, and a line break comes after it.
        return self._rows.repeats * (size + lines * len(self._ending))

    def solid(self, text: bytes) -> bytes:
        """Plain lines, and nothing else, as they are to be written."""
        if self._rows.repeats > 1:
            return self.plain(text.rstrip(b"\n").split(b"\n"))
        # Searching for one byte is many times faster than for the two at the end of a line.
        lines = text.removesuffix(b"\n").split(b"\n")
        ending = self._ending + b"\n"
        return ending.join([line[:-1] for line in lines]) + ending

    def plain(self, lines: Iterable[bytes]) -> bytes:
        """Plain lines as they are to be written."""
        return b"".join([(line[:-1] + self._ending + b"\n") * self._rows.repeats for line in lines])

    def any(self, line: bytes) -> bytes:
        """One line of any kind as it is to be written."""
        text = line.strip()
        row = orjson.loads(text)
        if self._rows.prompt is None and row.get(AGENT_REF) == self._rows.reference:
            made = text
        elif self._rows.prompt is None and AGENT_REF not in row:
            made = text[:-1] + self._ending
        else:
            # Python's own decoder keeps numbers of any size as they are.
            row = json.loads(text)
            if self._rows.prompt is not None:
                row = fill_row(self._rows.prompt, row)
            made = json.dumps({**row, AGENT_REF: self._rows.reference}).encode()
        return (made + b"\n") * self._rows.repeats


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


def taken(rows: DatasetRows, lines: Iterable[bytes], first_row: int) -> Iterator[bytes]:
    """Of lines that begin with row `first_row`, blank ones left out, those of the dataset."""
    number = first_row
    for line in lines:
        if line and not line.isspace():
            if rows.takes(number):
                yield line
            number += 1
