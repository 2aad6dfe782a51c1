"""The line in which a process prints why it cannot run, for the process that started it."""

from typing import Final, NamedTuple

import msgspec

from palestra.errors.tree import PalestraError

REFUSAL_MARK: Final = "\x1epalestra-refusal "
"""The start of such a line."""


class StartRefusal(NamedTuple):
    """The parts of an error that such a line has."""

    message: str
    hint: str
    exit_code: int


def refusal_line(error: PalestraError) -> str:
    """Return the line for an error, without a line end."""
    parts = StartRefusal(error.message, error.hint, error.exit_code)
    return REFUSAL_MARK + msgspec.json.encode(parts).decode()


def read_refusal(line: str) -> StartRefusal:
    """Return what a line of `refusal_line` says."""
    return msgspec.json.decode(line.removeprefix(REFUSAL_MARK), type=StartRefusal)
