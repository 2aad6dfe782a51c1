"""Find where an author's code stood, and which call exceeded its time, from `faulthandler`'s
stacks.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from palestra.errors import CallError, RowIdentity, add_row
from palestra.sandbox import CRASHES
from palestra.server import AuthorCall, AuthorsPlace, ended_process, is_servers_file, overran
from palestra.system import Executing, Pulse, how_ended

_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)")
_ENDING_THREAD: Final = re.compile(r"^Current thread 0x([0-9a-f]+)", re.MULTILINE)
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
    threads = _threads(stacks)
    if ident is None:
        return list(threads.values())[-1] if threads else stacks.splitlines()
    return threads.get(ident, [])


def _threads(stacks: str) -> dict[int, list[str]]:
    """Return the lines of each thread's stack, in the order of `stacks`."""
    threads: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in stacks.splitlines():
        thread = _THREAD.match(line)
        if thread is not None:
            lines = threads.setdefault(int(thread[1], 16), [])
        else:
            lines.append(line)
    return threads


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


NOT_KNOWN: Final = "whose code ended it is not known"
ONE_AT_A_TIME: Final = "with --concurrency 1, only one rollout is in question the next time"


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """Which code of authors a process executed when it ended by itself.

    `failure`: of the rollout whose call ended the process; None when this is not certain.
    `circumstances`: without a failure, the end of a sentence that says where the process ended, and
    which rollouts it executed. `since`: when that call began, a `time.monotonic()` value.
    """

    failure: CallError | None = None
    circumstances: str = ""
    since: float = 0.0

    @property
    def hint(self) -> str:
        """How to find out which rollout it was; empty when it is known, or when none is suspected."""
        return ONE_AT_A_TIME if self.circumstances.endswith(NOT_KNOWN) else ""


def process_end(pulse: Pulse, returncode: int) -> ProcessEnd:
    """Return what the pulse of a process that has ended says about its end.

    Several rollouts may execute code at the same time, each on a thread. The stacks that a process
    writes as it ends name the thread that ended it, unless that was a thread of native code.
    """
    if returncode < 0 and -returncode not in CRASHES:
        return ProcessEnd()  # killed from outside
    stacks = pulse.last_stacks(returncode)
    ending_thread = _ENDING_THREAD.search(stacks)
    ident = None if ending_thread is None else int(ending_thread[1], 16)
    executing = _calls_of_rollouts(pulse)
    suspects = [(call, author) for call, author in executing if ident in {None, call.ident}]
    if len(suspects) != 1 or (ident is None and _others_in_authors_code(stacks, suspects[0][0])):
        return ProcessEnd(
            circumstances=_circumstances([who for _, who in executing], stacks, ident)
        )
    [(call, author)] = suspects
    failure = ended_process(
        author.server,
        author.path,
        executing_place(call, stacks),
        how_ended(returncode),
        server_type=author.server_type,
    )
    return ProcessEnd(_of_call(failure, author), since=call.since)


def _calls_of_rollouts(pulse: Pulse) -> list[tuple[Executing, AuthorCall]]:
    return [
        (call, author)
        for call in pulse.executing()
        if (author := author_call(call)) is not None and author.row is not None
    ]


def _others_in_authors_code(stacks: str, call: Executing) -> bool:
    """Whether a thread on which `call` does not run executes an author's code."""
    stacks_of_others = (lines for ident, lines in _threads(stacks).items() if ident != call.ident)
    return any(_is_authors(authors_place("\n".join(lines))) for lines in stacks_of_others)


def _circumstances(executing: Sequence[AuthorCall], stacks: str, ident: int | None) -> str:
    author_place = AuthorsPlace() if ident is None else place_on(stacks, ident)
    text = ""
    if _is_authors(author_place):
        text = author_place.in_sentence()
    calls = sorted(
        f"{author.server}{author.path} of {row_name(author.row)}"
        for author in executing
        if author.row is not None
    )
    return f"{text} while it executed {', '.join(calls)}; {NOT_KNOWN}" if calls else text


def _is_authors(author_place: AuthorsPlace) -> bool:
    return bool(author_place.file) and is_servers_file(author_place.file)


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
