"""Look at a run again and again: `status --watch` and `logs --follow`."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from palestra.cli.console import say
from palestra.system import shown

LOGS_EVERY_S: Final = 0.5
"""Seconds between two reads of the logs that are followed."""
LOGS_PER_STATUS: Final = 10
"""The number of reads for each question to the cluster whether what is followed has ended."""
MOST_BYTES: Final = 1 << 20
"""The largest part of a log that is read at once."""


def until_true(step: Callable[[], bool], every_s: float) -> None:
    """Call `step` every `every_s` seconds until it returns true."""
    pause = threading.Event()
    while not step():
        pause.wait(every_s)


class FollowedLogs:
    """Prints what is appended to logs. A log that appears later is printed from its beginning."""

    def __init__(self, paths: Callable[[], Sequence[Path]]) -> None:
        self._paths = paths
        self._offsets: dict[Path, int] = {}
        self._last_printed: Path | None = None

    def print_new(self, *, to_end: bool = False) -> None:
        """Print the complete lines that were written since the last call.

        `to_end`: nothing more is written; print also a last line that has no end.
        """
        for path in self._paths():
            for text in self._new_text(path, to_end=to_end):
                if path != self._last_printed:
                    say(f"==> {shown(path)}")
                    self._last_printed = path
                say(text.decode("utf-8", "replace").removesuffix("\n"))

    def _new_text(self, path: Path, *, to_end: bool) -> Iterator[bytes]:
        """Yield what a log has now. What is written meanwhile is left to the next call."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while (start := self._offsets.get(path, 0)) < size:
                file.seek(start)
                text = file.read(min(MOST_BYTES, size - start))
                lines = text[: text.rfind(b"\n") + 1]
                if not lines and (to_end or len(text) == MOST_BYTES):
                    lines = text
                if not lines:
                    return
                self._offsets[path] = start + len(lines)
                yield lines
