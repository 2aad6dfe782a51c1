"""Show the progress of uploads and downloads: a bar on a terminal, else a line now and then."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, final

from palestra.cli.console import is_plain, notice
from palestra.cli.escaping import one_line
from palestra.cli.terminal import is_a_screen
from palestra.config import ConfigTree
from palestra.datasets import TransferPatience, UploadProgress
from palestra.settings import NetworkSettings, args_from

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

LINE_EVERY_S = 5.0


def patience_of(tree: ConfigTree) -> TransferPatience:
    """Return the network limits of a command from its settings. It prints a notice while it waits."""
    settings = args_from(NetworkSettings, tree)
    deadline_s = settings.network_deadline_s
    return TransferPatience(
        deadline_s,
        is_chosen="network_deadline_s" in settings.model_fields_set,
        answer_timeout_s=min(60.0, deadline_s),
        setting="network_deadline_s",
        tell=notice,
    )


@contextlib.contextmanager
def transfers() -> Iterator[UploadProgress]:
    """Show the uploads and downloads of the body."""
    if not is_a_screen(sys.stderr):
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, no_color=is_plain() or None)) as bars:
        yield Frames(bars)


@final
class Frames:
    """Progress bars on a terminal, one below the other."""

    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
        """Add a bar for a transfer."""
        self._task = self._bars.add_task(one_line(name), total=total_bytes, completed=done_bytes)

    def advance(self, count: int, /) -> None:
        """Move the bar forward by `count` bytes."""
        if self._task is not None:
            self._bars.advance(self._task, count)

    def end(self) -> None:
        """Stop the bar, and leave it on the screen."""
        if self._task is not None:
            self._bars.stop_task(self._task)


@final
class Lines:
    """Progress lines for an output that is no terminal: at the start, every few seconds, at the
    end.
    """

    def __init__(
        self,
        report: Callable[[str], None] = notice,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = report
        self._clock = clock
        self._name = ""
        self._total: int | None = None
        self._done = 0
        self._next = 0.0

    def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
        """Print the size of the transfer, and how much of it is already done."""
        self._name, self._total, self._done = one_line(name), total_bytes, done_bytes
        self._next = self._clock() + LINE_EVERY_S
        size = "" if total_bytes is None else f" ({sized(total_bytes)})"
        already_there = f", {sized(done_bytes)} are there already" if done_bytes else ""
        self._tell(f"{self._name}{size}{already_there} …")

    def advance(self, count: int, /) -> None:
        """Add `count` bytes, and print a line when the next one is due."""
        self._done += count
        if self._clock() >= self._next:
            self._next = self._clock() + LINE_EVERY_S
            self._tell(f"{self._name}: {self._so_far()}")

    def end(self) -> None:
        """Print how much was transferred."""
        self._tell(f"{self._name}: {self._so_far()}")

    def _so_far(self) -> str:
        if not self._total:
            return sized(self._done)
        share = min(100, 100 * self._done // self._total)
        return f"{sized(self._done)} of {sized(self._total)}, {share} %"


def sized(count: int) -> str:
    """Return a number of bytes as text for people, such as `1.5 MB`."""
    size, units = float(count), ["B", "kB", "MB", "GB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
