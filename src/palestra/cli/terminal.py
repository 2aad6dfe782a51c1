"""A part of the terminal that is painted again and again, with the program's lines above it.

A thread of its own does all the writing: a terminal that takes nothing (Ctrl-S, a slow line)
must not hold up the event loop. While it runs, what anybody prints to standard error, or to
standard output when that is the same terminal, goes through it and appears above the frame.

Every frame is one write: up to the first line of the last frame, each line with the rest of its
row erased, then whatever is left below. The cursor stays visible at its end, so that a process
that is killed leaves a terminal in order.
"""

import contextlib
import io
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO, final

from rich.console import Console
from rich.text import Text

from palestra.cli.escaping import visible

FALLBACK_SIZE: Final = os.terminal_size((80, 24))
LAST_WORDS_S = 2.0
"""How long a terminal that takes nothing is waited for at the end."""

Render = Callable[[int, int], Sequence[Text]]
"""The lines for so many columns and rows; none may be wider than that."""


def up_to_the_first(widths: Sequence[int], columns: int) -> int:
    """How many rows above the cursor a frame with lines of these widths began.

    A terminal that has become narrower since then has broken its lines in two or more.
    """
    return max(0, sum(max(1, -(-width // columns)) for width in widths) - 1)


def breaks_lines(environment: Mapping[str, str]) -> bool:
    """Whether the terminal breaks lines anew when it gets narrower, as most do.

    Of these few it is known that they cut lines off instead: going up further than the frame
    would erase what others have written.
    """
    term = environment.get("TERM", "")
    in_screen = term.startswith("screen") and "TMUX" not in environment
    return not (in_screen or "XTERM_VERSION" in environment or term.startswith(("linux", "st-")))


@dataclass(frozen=True, slots=True)
class _Above:
    text: str


@dataclass(frozen=True, slots=True)
class _Paint:
    render: Render


class _Fresh:
    """Somebody else has written: what is on the screen is no longer ours."""


class _End:
    """The last write."""


_Order = _Above | _Paint | _Fresh | _End


@final
class Screen:
    """Use as a context manager; `paint` and `print` may be called from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._fd = stream.fileno()
        self._console = Console(file=stream, force_terminal=True, highlight=False)
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="screen")
        self._breaks_lines = breaks_lines(os.environ)
        self._render: Render = _nothing
        self._rendered_for: os.terminal_size | None = None
        self._frame = ""
        self._widths: list[int] = []
        """Of the lines of `_frame`."""
        self._on_screen: list[int] = []
        """Widths of the lines that are on the screen now; none when it is not ours."""

    @property
    def has_unicode(self) -> bool:
        """Whether the terminal's encoding has more than ASCII."""
        return not self._console.options.ascii_only

    def __enter__(self) -> "Screen":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.put(_End())
        self._thread.join(LAST_WORDS_S)

    def paint(self, render: Render) -> None:
        """Show these lines in place of the last ones."""
        self._orders.put(_Paint(render))

    def print(self, text: str) -> None:
        """A line, or several, above the frame."""
        self._orders.put(_Above(text))

    def start_afresh(self) -> None:
        """Leave what is on the screen, and paint below it from now on."""
        self._orders.put(_Fresh())

    @contextlib.contextmanager
    def taking_prints(self) -> Iterator[None]:
        """Whatever is printed while the body runs appears above the frame."""
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(PrintsAbove(self, sys.stderr))
            stack.enter_context(contextlib.redirect_stderr(errors))
            if same_terminal(sys.stdout, self._fd):
                output = stack.enter_context(PrintsAbove(self, sys.stdout))
                stack.enter_context(contextlib.redirect_stdout(output))
            yield

    # On the thread

    def _work(self) -> None:
        ending = False
        while not ending:
            orders: list[_Order] = [self._orders.get()]
            # All that is waiting, in one write: a burst of lines costs one frame.
            with contextlib.suppress(queue.Empty):
                while True:
                    orders.append(self._orders.get_nowait())
            ending = any(isinstance(order, _End) for order in orders)
            try:
                self._write(self._obey(orders, ending=ending))
            except OSError:
                return  # the terminal is gone; the collection is not

    def _obey(self, orders: Sequence[_Order], *, ending: bool) -> str:
        """What must be written."""
        above = [order.text for order in orders if isinstance(order, _Above)]
        lines = "".join(f"{visible(text)}\n" for text in above).replace("\n", "\r\n")
        for order in orders:
            if isinstance(order, _Paint):
                self._render, self._rendered_for = order.render, None
            elif isinstance(order, _Fresh):
                self._on_screen = []
        if not in_front(self._fd):
            self._on_screen = []
            return lines
        size = self._size()
        columns = size.columns if self._breaks_lines else sys.maxsize
        back = up_to_the_first(self._on_screen, columns)
        home = f"\r\x1b[{back}A" if back else "\r"
        self._prepare(size)
        self._on_screen = self._widths
        end = "\r\n" if ending and self._frame else ""
        return (
            f"{home}\x1b[J{lines}{self._frame}{end}" if lines else f"{home}{self._frame}\x1b[J{end}"
        )

    def _prepare(self, size: os.terminal_size) -> None:
        """Make the frame for this size, unless that is what it was made for."""
        if self._rendered_for == size:
            return
        # One column stays free: terminals differ in what a full line does to the cursor.
        lines = self._render(size.columns - 1, size.lines - 1)
        self._widths = [line.cell_len for line in lines]
        self._frame = "\r\n".join(f"{self._styled(line)}\x1b[K" for line in lines)
        self._rendered_for = size

    def _styled(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", no_wrap=True, crop=False, soft_wrap=True)
        return captured.get()

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return FALLBACK_SIZE
        return size if size.columns > 1 and size.lines > 1 else FALLBACK_SIZE

    def _write(self, text: str) -> None:
        raw = text.encode(self._stream.encoding or "utf-8", "backslashreplace")
        while raw:
            try:
                raw = raw[os.write(self._fd, raw) :]
            except BlockingIOError:  # somebody made it non-blocking
                time.sleep(0.05)


@final
class PrintsAbove(io.TextIOBase):
    """Stands in for a standard stream: whole lines go to the screen, each in one piece."""

    def __init__(self, screen: Screen, stream: TextIO) -> None:
        super().__init__()
        self._screen = screen
        self._stream = stream
        self._lock = threading.Lock()
        self._begun = ""

    def write(self, text: str, /) -> int:
        """Take `text`; what follows its last line break waits for the rest of its line."""
        with self._lock:
            whole, newline, rest = (self._begun + text).rpartition("\n")
            self._begun = rest
        if newline:
            self._screen.print(whole)
        return len(text)

    def close(self) -> None:
        """Let go of a line that was never ended."""
        if not self.closed and self._begun:
            self.write("\n")
        super().close()

    def writable(self) -> bool:
        """Yes."""
        return True

    def isatty(self) -> bool:
        """As the stream behind."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """That of the stream behind."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # TextIO's own is an attribute
        """That of the stream behind."""
        return self._stream.encoding


def same_terminal(stream: TextIO, fd: int) -> bool:
    """Whether both lead to one terminal."""
    try:
        other = stream.fileno()
        return os.isatty(other) and os.fstat(other).st_rdev == os.fstat(fd).st_rdev
    except (OSError, ValueError):  # closed, or no file at all
        return False


def in_front(fd: int) -> bool:
    """Whether this process may paint: not while it runs in the background of its shell."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not our controlling terminal: nobody else's either
        return True


def is_a_screen(stream: TextIO) -> bool:
    """Whether frames can be painted there."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}


def _nothing(_width: int, _height: int, /) -> Sequence[Text]:
    return ()
