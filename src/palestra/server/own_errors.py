"""What a server says of its author's bugs: each once in full, then how often it came again.

A verifier that raises does so for every rollout. Thousands of equal tracebacks would bury the one
line that matters, and whatever else the command has to say.
"""

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from palestra.server.author_calls import is_servers_file
from palestra.server.authors_errors import error_text

logger = logging.getLogger("palestra.server")

PAUSE_S: Final = 5.0
"""How long an error that comes again is only counted, after it was told."""
MOST_KINDS: Final = 200
"""Different errors that are told in full; a server that has more has one kind, which goes on."""
_PACKAGE: Final = Path(__file__).parents[1]
_CALLERS: Final = (str(_PACKAGE / "server"), str(_PACKAGE / "fleet"))
"""What calls authors' code."""
_PLUMBING = "/anyio/"


def own_frames(error: BaseException, limit: int = 4) -> str:
    """The last frames of an author's own files; of other files only where there are none of theirs.

    Those are told of by the text of the error: what matters is where the author called them.
    """
    # One that was raised anew on its way here says where it came from.
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    theirs = [
        f for f in frames if not f.filename.startswith(_CALLERS) and _PLUMBING not in f.filename
    ]
    own_files = [frame for frame in theirs if is_servers_file(frame.filename)]
    quoted = (own_files or theirs or list(frames))[-limit:]
    return "\n".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in quoted)


Report = Callable[[str, str, str, str], object]
"""Path, class name, text and frames of an exception."""


@dataclass(slots=True)
class _Told:
    """One kind of error. `count`: how often it came, `said`: how many of them a line told."""

    name: str
    count: int
    said: int
    at: float


@final
class OwnErrors:
    """The errors of one server's own code. Kinds differ by path, type and the author's frames."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, report: Report | None = None
    ) -> None:
        """`report`: gets what there is to say, instead of the log."""
        self._clock = clock
        self._report = report
        self._kinds: dict[tuple[str, str, str], _Told] = {}

    def log(self, server: str, path: str, error: BaseException) -> str:
        """Say that a method raised, unless that was said a moment ago; the author's frames."""
        frames = own_frames(error)
        self.note(server, path, type(error).__name__, error_text(error), frames)
        return frames

    def note(self, server: str, path: str, kind: str, text: str, frames: str) -> None:
        """Say that a method raised `text`, unless that was said a moment ago.

        `kind`: the exception's class name; `frames`: the author's.
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
            self._tell(earlier)

    def tell_rest(self) -> None:
        """Say how often each came in all, where that was not said yet."""
        for kind in self._kinds.values():
            if kind.count > kind.said:
                self._tell(kind)

    def _tell(self, kind: _Told) -> None:
        kind.said, kind.at = kind.count, self._clock()
        logger.error("%s again, %d times so far", kind.name, kind.count)
