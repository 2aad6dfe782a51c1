"""Find where an author's code stood, and which call exceeded its time, from `faulthandler`'s
stacks.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from palestra.errors import CallError, RowIdentity, add_row
from palestra.server import AuthorCall, AuthorsPlace, ended_process, is_servers_file, overran
from palestra.system import Executing

_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)")
_LAST: Final = ('  File "<string>", line 1 in <module>', "  ...\n")
"""The ends of a complete stack: where the worker's program began, or faulthandler's mark after a
hundred frames."""


def is_whole(stack: str) -> bool:
    """Whether the stack is complete."""
    return any(sign in stack for sign in _LAST)


def authors_place(stack: str) -> AuthorsPlace:
    """Return the innermost frame in an author's file; without such a frame, the innermost frame of
    all.
    """
    frames = [
        AuthorsPlace(function, _text(file), int(line))
        for file, line, function in _FRAME.findall(stack)
    ]
    theirs = (frame for frame in frames if is_servers_file(frame.file))
    return next(theirs, frames[0] if frames else AuthorsPlace())


def stack_of(stacks: str, ident: int | None) -> list[str]:
    """Return the lines of one thread's stack, innermost first. `ident`: the thread; None: the main
    thread.

    The main thread's stack is the last one in `stacks`.
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
    """Return where the thread `ident` stands. None: the main thread."""
    return authors_place("\n".join(stack_of(stacks, ident)))


def _text(escaped: str) -> str:
    """Return a file name with faulthandler's escapes of non-ASCII characters undone."""
    if "\\" not in escaped:
        return escaped
    try:
        return escaped.encode("ascii").decode("unicode_escape")
    except UnicodeError:
        return escaped


def overrun(call: Executing, stacks: str, lasted_s: float) -> CallError | None:
    """Return the failure of the rollout whose call blocks its process for too long.

    `stacks`: the thread stacks that the process printed; empty if it printed none. Returns None
    when `call` is not a call of a server.
    """
    author = author_call(call)
    if author is None:
        return None
    author_place = executing_place(call, stacks)
    error = overran(
        author.server, author.path, author_place, lasted_s, server_type=author.server_type
    )
    return _of_call(error, author)


def process_end(calls: Sequence[Executing], how: str) -> CallError | None:
    """Return the failure of the rollout whose call ended its process by itself.

    `calls`: what the process executed last. `how`: `exit code 3`, for one. Returns None unless there
    was exactly one call of a server: of several, no one knows which it was.
    """
    authors = [(call, author) for call in calls if (author := author_call(call)) is not None]
    if len(authors) != 1:
        return None
    [(call, author)] = authors
    author_place = executing_place(call, "")
    error = ended_process(
        author.server, author.path, author_place, how, server_type=author.server_type
    )
    return _of_call(error, author)


def _of_call(error: CallError, author: AuthorCall) -> CallError:
    error.verify_request = author.verify_request or None
    return add_row(error, author.row)


def blocking(call: Executing | None, stacks: str) -> str:
    """Return the start of a sentence that names the code which blocks a process. `call`: the call
    that the process is known to execute.
    """
    author = None if call is None else author_call(call)
    author_place = place_on(stacks) if call is None else executing_place(call, stacks)
    where = f" ({author_place})" if author_place.file else ""
    if author is None:
        return f"something has been blocking the event loop{where}"
    row = f" of {row_name(author.row)}" if author.row is not None else ""
    return f"{author.server}{author.path}{row} has been blocking the event loop{where}"


def row_name(row: RowIdentity) -> str:
    """Return `rollout 2:0`, or `row 2` when the rollout is unknown."""
    return f"row {row.task}" if row.rollout is None else f"rollout {row.task}:{row.rollout}"


def author_call(call: Executing) -> AuthorCall | None:
    """Return the author's call that `call` describes; None when `call` is something else."""
    try:
        return msgspec.json.decode(call.text, type=AuthorCall)
    except msgspec.DecodeError:
        return None


def executing_place(call: Executing, stacks: str) -> AuthorsPlace:
    """Return where a call is executing. Without its stack, return where its function begins."""
    author_place = place_on(stacks, call.ident)
    author = author_call(call)
    if author_place.file or author is None:
        return author_place
    return AuthorsPlace(author.function, author.file, author.line)
