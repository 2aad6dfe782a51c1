"""Where an author's code stood, read from what `faulthandler` writes of a stack."""

import re
from typing import Final

from palestra.server import AuthorsPlace, is_servers_file

_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)")
_LAST: Final = ('  File "<string>", line 1 in <module>', "  ...\n")
"""How a whole stack ends: where the nursery's program began, or a hundred frames above that."""


def is_whole(stack: str) -> bool:
    """Whether no frame is missing."""
    return any(sign in stack for sign in _LAST)


def authors_place(stack: str) -> AuthorsPlace:
    """The innermost frame of an author's file; without one, the innermost at all."""
    frames = [
        AuthorsPlace(function, _text(file), int(line))
        for file, line, function in _FRAME.findall(stack)
    ]
    theirs = (frame for frame in frames if is_servers_file(frame.file))
    return next(theirs, frames[0] if frames else AuthorsPlace())


def stack_of(stacks: str, ident: int | None) -> list[str]:
    """The lines of one thread's stack, the innermost first; without `ident`, the main thread's.

    That one comes last.
    """
    threads: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in stacks.splitlines():
        thread = _THREAD.match(line)
        if thread is not None:
            lines = threads.setdefault(int(thread[1], 16), [])
        else:
            lines.append(line)
    return lines if ident is None else threads.get(ident, [])


def place_on(stacks: str, ident: int | None = None) -> AuthorsPlace:
    """Where one thread stands; without `ident`, the main thread."""
    return authors_place("\n".join(stack_of(stacks, ident)))


def _text(escaped: str) -> str:
    """A file's name, in which faulthandler has escaped what is not ASCII."""
    if "\\" not in escaped:
        return escaped
    try:
        return escaped.encode("ascii").decode("unicode_escape")
    except UnicodeError:
        return escaped
