"""A call of an author's that holds its process: where it executes, and what that means to its rollout."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from palestra.errors import CallError, Evidence, add_row, class_of
from palestra.serving.author_calls import AuthorCall
from palestra.serving.code_files import is_servers_file
from palestra.system import Executing

SHOWN_STACK_LINES: Final = 30

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A line of a file, and the function it is in."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


def servers_place(stacks: str, ident: int | None = None) -> CodePlace | None:
    """Where a server's code is executing: its innermost line on the thread `ident`.

    Without `ident`, on the main thread, which comes last.
    """
    blocks = _blocks(stacks)
    lines = blocks.get(ident, []) if ident is not None else next(reversed(blocks.values()), [])
    for line in lines:
        frame = _FRAME.match(line)
        if frame is not None and is_servers_file(frame[1]):
            return CodePlace(frame[1], int(frame[2]), frame[3])
    return None


def stack_of(stacks: str, ident: int) -> str:
    """The stack of one thread, its innermost line first."""
    return "\n".join(_blocks(stacks).get(ident, [])[:SHOWN_STACK_LINES])


def _blocks(stacks: str) -> dict[int, list[str]]:
    blocks: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in stacks.splitlines():
        thread = _THREAD.match(line)
        if thread is not None:
            lines = blocks.setdefault(int(thread[1], 16), [])
        elif line.strip():
            lines.append(line)
    return blocks


def overrun(call: Executing, stacks: str, lasted_s: float) -> CallError | None:
    """The failure of the rollout whose call holds its process for too long.

    `stacks`: what the process said of its threads, empty when it said nothing. None when what is
    executing is no call of a server.
    """
    author = author_call(call)
    if author is None:
        return None
    place = place_of(call, stacks)
    error = class_of(author.kind)(
        f"{author.server}{author.path} did not end: {author.function} has been executing for "
        f"{lasted_s:.1f} s in {place}, and its rollout's deadline has passed",
        hint="bound what that line does (a regular expression that backtracks, a loop, a C "
        "extension), or make the function a plain `def`, which runs where it can be stopped",
        evidence=Evidence(traceback=stack_of(stacks, call.ident)),
    )
    error.verify_request = author.verify_request or None
    return add_row(error, author.row)


def blocking(call: Executing | None, stacks: str) -> str:
    """Who holds a process, as the beginning of a sentence. `call`: what it is known to execute."""
    author = None if call is None else author_call(call)
    place = servers_place(stacks) if call is None else place_of(call, stacks)
    where = f" in {place}" if place is not None else ""
    if author is None:
        return f"something has been blocking the event loop{where}"
    row = f" of rollout {author.row.task}:{author.row.rollout}" if author.row is not None else ""
    return f"{author.server}{author.path}{row} has been blocking the event loop{where}"


def author_call(call: Executing) -> AuthorCall | None:
    """What is executing, as its server told it."""
    try:
        return msgspec.json.decode(call.text, type=AuthorCall)
    except msgspec.DecodeError:
        return None


def place_of(call: Executing, stacks: str) -> CodePlace | None:
    """Where a call is executing; where its function begins when its stack did not come."""
    found = servers_place(stacks, call.ident)
    author = author_call(call)
    if found is not None or author is None:
        return found
    return CodePlace(author.file, author.line, author.function)
