"""Logs the bugs in an author's code: each kind once in full, then only how often it came again.

A verifier that raises does so in every rollout. Thousands of equal tracebacks would hide the one
line that matters, and all other output of the command.
"""

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from palestra.server.author_calls import is_authors_file, is_servers_file
from palestra.server.authors_errors import UnfitResult, error_text, raised_by_author
from palestra.system import file_and_line

logger = logging.getLogger("palestra.server")

PAUSE_S: Final = 5.0
"""Seconds for which a repeated error is only counted, after it was logged."""
MOST_KINDS: Final = 200
"""The largest number of kinds that are logged in full; all further errors are counted as one kind.
"""
_PACKAGE: Final = Path(__file__).parents[1]
_CALLERS: Final = (str(_PACKAGE / "server"), str(_PACKAGE / "fleet"))
"""Folders of Palestra's code that calls authors' code."""
_PLUMBING = "/anyio/"


def own_frames(error: BaseException, limit: int = 4) -> str:
    """Return the last frames in an author's own files; frames of other files only when there are
    none.

    Other frames are omitted because the error's text describes them; the useful line is where the
    author's code made the call.
    """
    # One that was raised anew on its way here says where it came from.
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    theirs = [
        f for f in frames if not f.filename.startswith(_CALLERS) and _PLUMBING not in f.filename
    ]
    own_files = [frame for frame in theirs if is_servers_file(frame.filename)]
    quoted = (own_files or theirs or list(frames))[-limit:]
    return "\n".join(map(_line_of, quoted))


def authors_line(error: BaseException) -> str:
    """Return `FILE:LINE in FUNCTION` of the innermost frame in an author's file; empty without one.

    For a TimeoutError of `asyncio.timeout` it is where the code waited when the time was over.
    """
    return _line_of(_innermost(error, is_authors_file))


def raising_place(error: BaseException) -> str:
    """Return `FILE:LINE: ` of the innermost frame in an author's file, for the beginning of a message;
    empty without one.
    """
    frame = _innermost(error, is_authors_file)
    return "" if frame is None else f"{file_and_line(Path(frame.filename), frame.lineno)}: "


def faulty_line(error: BaseException) -> str:
    """Return `FILE:LINE in FUNCTION` of what is wrong in a server's code, an author's or a shipped
    one: where it raised `error`, or the function whose result cannot be sent. Empty without one.
    """
    if isinstance(error, UnfitResult):
        return error.function
    return _line_of(_innermost(error, is_servers_file))


def _innermost(
    error: BaseException, is_own: Callable[[str], bool]
) -> traceback.FrameSummary | None:
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    return next((frame for frame in reversed(frames) if is_own(frame.filename)), None)


def _line_of(frame: traceback.FrameSummary | None) -> str:
    return "" if frame is None else f"{frame.filename}:{frame.lineno} in {frame.name}"


Report = Callable[[str, str, str, str], object]
"""Gets the path, class name, text and frames of an exception."""


@dataclass(slots=True)
class _Told:
    """One kind of error. `count`: how often it came. `said`: the count that was last logged."""

    name: str
    count: int
    said: int
    at: float


@final
class OwnErrors:
    """The errors of one server's own code, grouped by path, type and the author's frames."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, report: Report | None = None
    ) -> None:
        """`report`: is called for each error, instead of the log."""
        self._clock = clock
        self._report = report
        self._kinds: dict[tuple[str, str, str], _Told] = {}

    def log(self, server: str, path: str, error: BaseException) -> str:
        """Log that a method raised `error`, or only count it if it was logged recently. Return the
        author's frames.
        """
        frames = own_frames(error)
        kind = type(raised_by_author(error)).__name__
        self.note(server, path, kind, error_text(error), frames)
        return frames

    def note(self, server: str, path: str, kind: str, text: str, frames: str) -> None:
        """Log that a method raised `text`, or only count it if it was logged recently.

        `kind`: the exception's class name; `frames`: the author's frames.
        """
        if self._report is not None:
            self._report(path, kind, text, frames)
            return
        key = (path, kind, frames)
        if key not in self._kinds and len(self._kinds) >= MOST_KINDS:
            key = ("", "", "")
        earlier = self._kinds.get(key)
        if earlier is None:
            name = f"{server}{path} raised {kind}"
            self._kinds[key] = _Told(name, 1, 1, self._clock())
            logger.error("%s%s raised %s\n%s", server, path, text, frames)
            return
        earlier.count += 1
        if self._clock() - earlier.at >= PAUSE_S:
            self._log_count(earlier)

    def tell_rest(self) -> None:
        """Log the total count of each kind of error that came again since it was last logged."""
        for kind in self._kinds.values():
            if kind.count > kind.said:
                self._log_count(kind)

    def _log_count(self, kind: _Told) -> None:
        kind.said, kind.at = kind.count, self._clock()
        logger.error("%s again, %d times so far", kind.name, kind.count)
