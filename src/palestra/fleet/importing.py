"""Import an author's file under a time limit, and report the import to this process's pulse.

An import runs all code of the file, and may never end. Nothing inside the process can stop code
that holds the interpreter's lock, so the process that watches this one must kill it.
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
"""The name of the setting for the seconds that a server may take to start, and a file to be
imported."""
START_TIMEOUT_S: Final = 120.0
OF_START: Final = 0.8
"""The share of the remaining start time that imports in a server's workers may take. The rest
leaves time to report where a worker stands before the start fails."""
LEAST_OF_START_S: Final = 1.0

LONGER: Final = f"++{START_TIMEOUT}=<seconds> ({START_TIMEOUT} in a config file)"
"""The setting that allows a longer start, for commands without an option for it."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """Limits of an import: the seconds that one file may take, when the whole start must end, and
    the setting that raises the limit.
    """

    seconds: float = START_TIMEOUT_S
    ends_at: float = math.inf
    longer: str = LONGER


_limit: ContextVar[_Limit] = ContextVar("palestra_start_timeout", default=_Limit())  # noqa: B039  # it is frozen


class AuthorImport(msgspec.Struct, frozen=True, tag_field="what", tag="import"):
    """The import of a file that Palestra does not ship."""

    file: str
    limit_s: float
    longer: str = LONGER
    """The setting, as a user writes it, that raises the limit."""

    @classmethod
    def of(cls, file: Path) -> Self:
        """Return an `AuthorImport` of `file` with the limits that apply now."""
        return cls(str(file), _limit.get().seconds, _limit.get().longer)


def start_timeout_of(tree: ConfigTree) -> float:
    """Return the seconds that a server of this configuration may take to start.

    Raises ConfigError: the setting is not a number of seconds above 0.
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
    """Limit a start: the body may take `limit_s` seconds, and so may each file imported in it.

    `longer`: the setting, as a user writes it, that raises the limit.
    """
    token = _limit.set(_Limit(limit_s, time.monotonic() + limit_s, longer))
    try:
        yield
    finally:
        _limit.reset(token)


def start_limit_s() -> float:
    """Return the seconds that one import may take in the current start."""
    return _limit.get().seconds


def workers_limit_s() -> float:
    """Return the seconds that a server's workers may take for their imports in the current start."""
    limit = _limit.get()
    left_s = max(LEAST_OF_START_S, limit.ends_at - time.monotonic())
    return OF_START * min(limit.seconds, left_s)


@final
class AuthorImports:
    """The imports of one process, one at a time, and the thread that runs each.

    Servers of the same folder start at the same time: the second must not see a half-executed
    module.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.RLock()
        self._threads: dict[Path, int] = {}
        self._waiting: list[Path] = []

    @contextlib.contextmanager
    def importing(self, path: Path) -> Iterator[None]:
        """Wait until no other file is being imported; the body then imports `path`. The process's
        pulse records the import with its time limit.
        """
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

    def in_this_thread(self) -> Path | None:
        """Return the file whose code this thread executes to import it; None outside imports."""
        this_thread = threading.get_ident()
        threads = dict(self._threads)
        return next((file for file, thread in threads.items() if thread == this_thread), None)

    def unfinished(self, file: Path, limit_s: float) -> ServerDied | None:
        """Return the error for an import of `file` that is still running, or that waits for another
        file's import; None when there is no such import.
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
"""The imports of this process. One object per process, like `sys.modules`."""


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
    """Return the import that `call` describes; None when `call` is something else."""
    try:
        return msgspec.json.decode(call.text, type=AuthorImport)
    except msgspec.DecodeError:
        return None


def unfinished_import(call: Executing, stacks: str) -> ServerDied | None:
    """Return the error for an import that exceeded its limit; None when `call` is not an import.

    `stacks`: the thread stacks that the process printed.
    """
    started = author_import(call)
    return None if started is None else import_too_long(started, executing_place(call, stacks))


def import_too_long(
    started: AuthorImport, author: AuthorsPlace, *, waits_for: Path | None = None
) -> ServerDied:
    """Return the error for an import that was still executing at `author` when its limit ended.

    `waits_for`: the other file whose import it waits for, if any.
    """
    waits = "" if waits_for is None else f"; it waits for the import of {waits_for}"
    return ServerDied(
        f"{started.file} was not imported within {started.limit_s:g} s{waits}{standing_at(author)}",
        hint="find out why the import of this file does not return, or set a longer limit: "
        f"{started.longer}",
        function=author.function,
        file=author.file,
        line=author.line,
    )


def standing_at(author: AuthorsPlace) -> str:
    """Return the end of an error message: where the code is executing. Empty when the place is
    unknown.
    """
    return f": it is executing {author}" if author.file else ""


def _place_in(frame: FrameType | None) -> AuthorsPlace:
    """Return the place of the innermost frame that is in an author's file."""
    while frame is not None:
        code = frame.f_code
        if is_servers_file(code.co_filename):
            return AuthorsPlace(code.co_name, code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return AuthorsPlace()
