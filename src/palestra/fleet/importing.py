"""The import of an author's file: told to the pulse of this process, and bounded.

An import runs whatever stands in the file, and may never end. Nothing inside the process can stop
code that holds the interpreter's lock, so whoever watches the process ends it.
"""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, Self, final

import msgspec

from palestra.config import ConfigTree
from palestra.errors import ConfigError, ServerDied
from palestra.fleet.stacks import executing_place
from palestra.server import AuthorsPlace, is_servers_file
from palestra.system import Executing, current_pulse

START_TIMEOUT: Final = "start_timeout"
"""The setting: how many seconds a server may take to start, and a file to be imported."""
START_TIMEOUT_S: Final = 120.0
OF_START: Final = 0.8
"""The share of what is left of a server's start that the imports of its workers may take: they
tell where they stand before the server is given up."""
LEAST_OF_START_S: Final = 1.0

LONGER: Final = f"++{START_TIMEOUT}=<seconds> ({START_TIMEOUT} in a config file)"
"""What gives a start longer, where no option of the command does."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """How long a file may be imported, when the start ends that it is part of, and what sets it."""

    seconds: float = START_TIMEOUT_S
    ends_at: float = math.inf
    longer: str = LONGER


_limit: ContextVar[_Limit] = ContextVar("palestra_start_timeout", default=_Limit())  # noqa: B039  # it is frozen


class AuthorImport(msgspec.Struct, frozen=True, tag_field="what", tag="import"):
    """The import of a file that Palestra does not ship."""

    file: str
    limit_s: float
    longer: str = LONGER
    """What to write to give it longer."""

    @classmethod
    def of(cls, file: Path) -> Self:
        """The one that would begin here and now."""
        return cls(str(file), _limit.get().seconds, _limit.get().longer)


def start_timeout_of(tree: ConfigTree) -> float:
    """Seconds that a server of a configuration may take to start.

    Raises ConfigError when the setting is no number of seconds above 0.
    """
    timeout_text = tree.get(START_TIMEOUT)
    if timeout_text is None:
        return START_TIMEOUT_S
    with contextlib.suppress(TypeError, ValueError):
        if 0 < (limit_s := float(timeout_text)) < math.inf:
            return limit_s
    raise ConfigError(f"{START_TIMEOUT}: must be a number of seconds above 0, got {timeout_text!r}")


@contextlib.contextmanager
def starting_within(limit_s: float, longer: str = LONGER) -> Iterator[None]:
    """The body is a start: it may take so long, and so may each file that is imported in it.

    `longer`: what a user writes to give it longer.
    """
    token = _limit.set(_Limit(limit_s, time.monotonic() + limit_s, longer))
    try:
        yield
    finally:
        _limit.reset(token)


def start_limit_s() -> float:
    """Seconds that a file may be imported here."""
    return _limit.get().seconds


def workers_limit_s() -> float:
    """Seconds that the workers of a server that starts here may take for their imports."""
    limit = _limit.get()
    left_s = max(LEAST_OF_START_S, limit.ends_at - time.monotonic())
    return OF_START * min(limit.seconds, left_s)


@final
class AuthorImports:
    """The imports of one process, one at a time, and the thread that each runs on.

    Servers of one folder start at once: the second must not find a module half executed.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.RLock()
        self._threads: dict[Path, int] = {}
        self._waiting: list[Path] = []

    @contextlib.contextmanager
    def importing(self, path: Path) -> Iterator[None]:
        """Import `path` in the body once no other file is imported; the pulse has its limit."""
        self._waiting.append(path)
        try:
            self._one_at_a_time.acquire()
        finally:
            self._waiting.remove(path)
        self._threads[path] = threading.get_ident()
        try:
            with _in_pulse(AuthorImport.of(path)):
                yield
        finally:
            self._threads.pop(path, None)  # a file that loads itself has left already
            self._one_at_a_time.release()

    def unfinished(self, file: Path, limit_s: float) -> ServerDied | None:
        """The error of an import of `file` that runs now, or that waits for that of another file;
        None when there is none.
        """
        file = file.resolve()
        threads = dict(self._threads)
        for path in (file, *(threads if file in self._waiting else ())):
            if (ident := threads.get(path)) is None:
                continue
            author = _place_in(sys._current_frames().get(ident))  # noqa: SLF001  # there is no other way
            waits_for = None if path == file else path
            return import_too_long(AuthorImport(str(file), limit_s), author, waits_for=waits_for)
        return None


IMPORTS: Final = AuthorImports()
"""Those of this process: like `sys.modules`, there is one."""


@contextlib.contextmanager
def _in_pulse(started: AuthorImport) -> Iterator[None]:
    pulse = current_pulse()
    if pulse is None:
        yield
        return
    has_loop = pulse.last_beat is not None
    if not has_loop:
        pulse.beat()  # one that no other follows: the time without a beat counts from here
    text = msgspec.json.encode(started)
    pulse.enter(text, time.monotonic() + started.limit_s)
    try:
        yield
    finally:
        pulse.leave()
        pulse.forget(text)
        if not has_loop:
            pulse.rest()


def author_import(call: Executing) -> AuthorImport | None:
    """The import that is executing; None when something else is."""
    try:
        return msgspec.json.decode(call.text, type=AuthorImport)
    except msgspec.DecodeError:
        return None


def unfinished_import(call: Executing, stacks: str) -> ServerDied | None:
    """The error of an import that has taken too long; None when `call` is no import.

    `stacks`: what its process said of its threads.
    """
    started = author_import(call)
    return None if started is None else import_too_long(started, executing_place(call, stacks))


def import_too_long(
    started: AuthorImport, author: AuthorsPlace, *, waits_for: Path | None = None
) -> ServerDied:
    """The error of an import that stands at `author` after its limit.

    `waits_for`: the file that is imported there, where it is another one.
    """
    waits = "" if waits_for is None else f"; it waits for the import of {waits_for}"
    return ServerDied(
        f"{started.file} was not imported within {started.limit_s:g} s{waits}{standing_at(author)}",
        hint=f"make the import of the file return, or give it longer: {started.longer}",
        function=author.function,
        file=author.file,
        line=author.line,
    )


def standing_at(author: AuthorsPlace) -> str:
    """What follows the error of code that stands at `author`; nothing where that is not known."""
    return f": it is executing {author}" if author.file else ""


def _place_in(frame: FrameType | None) -> AuthorsPlace:
    """The innermost frame of an author's file."""
    while frame is not None:
        code = frame.f_code
        if is_servers_file(code.co_filename):
            return AuthorsPlace(code.co_name, code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return AuthorsPlace()
