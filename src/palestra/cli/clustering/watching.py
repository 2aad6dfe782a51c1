"""Look at a run again and again: `status --watch` and `logs --follow`."""

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

    def print_new(self) -> None:
        """Print the complete lines that were written since the last call."""
        for path in self._paths():
            for text in self._new_lines(path):
                if path != self._last_printed:
                    say(f"==> {shown(path)}")
                    self._last_printed = path
                say(text)

    def _new_lines(self, path: Path) -> Iterator[str]:
        start = self._offsets.get(path, 0)
        with path.open("rb") as file:
            file.seek(start)
            text = file.read(MOST_BYTES)
        complete = text[: text.rfind(b"\n") + 1] or (text if len(text) == MOST_BYTES else b"")
        self._offsets[path] = start + len(complete)
        if complete:
            yield complete.decode("utf-8", "replace").rstrip("\n")
