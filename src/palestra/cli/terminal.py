"""A frame at the end of the terminal, painted again and again, with the program's lines above it.

rich's `Live` paints. This module adds what a collection needs:

- A thread does all the writing: a terminal that accepts no output (Ctrl-S, a slow line) must not
  block the event loop. A burst of lines causes only one frame.
- Text that any code prints to standard error, or to standard output when it is the same terminal,
  appears above the frame.
- The cursor stays visible, so that a killed process leaves the terminal in order.
"""

import contextlib
import io
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TextIO, final

from rich.console import Console, ConsoleDimensions, ConsoleRenderable, Group
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import ControlType
from rich.text import Text

from palestra.cli.console import is_plain
from palestra.cli.escaping import visible

FALLBACK_SIZE: Final = os.terminal_size((80, 24))
LAST_WORDS_S = 2.0
"""How long, in seconds, to wait at the end for a terminal that accepts no output."""

Render = Callable[[int, int], Sequence[Text]]
"""Returns the lines for a number of columns and of rows. No line may be wider than the columns."""


@final
class Screen:
    """A terminal with a frame; a context manager. `paint` and `print` may be called from any
    thread.
    """

    def __init__(self, stream: TextIO) -> None:
        self._fd = stream.fileno()
        self._console = _Terminal(
            file=stream,
            force_terminal=True,
            force_interactive=True,
            highlight=False,
            emoji=False,
            color_system=None if is_plain() else "auto",
        )
        self._live = _Frame(self._console, self._fd)
        self._orders: queue.SimpleQueue[str | Render | None] = queue.SimpleQueue()
        """Lines to print, a frame to paint, and None at the end."""
        self._render: Render = lambda _width, _height: ()
        self._thread = threading.Thread(target=self._work, daemon=True, name="screen")

    @property
    def has_unicode(self) -> bool:
        """Whether the terminal's encoding has more than ASCII characters."""
        return not self._console.options.ascii_only

    def __enter__(self) -> "Screen":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.put(None)
        self._thread.join(LAST_WORDS_S)

    def paint(self, render: Render) -> None:
        """Show the lines of `render` in place of the last frame."""
        self._orders.put(render)

    def print(self, text: str) -> None:
        """Print one or more lines above the frame."""
        self._orders.put(text)

    def start_afresh(self) -> None:
        """Leave the old frame in place and paint below it, because another program has written
        there.
        """
        self._live.is_elsewhere = True

    @contextlib.contextmanager
    def taking_prints(self) -> Iterator[None]:
        """Show all text that is printed while the body runs above the frame."""
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(PrintsAbove(self, sys.stderr))
            stack.enter_context(contextlib.redirect_stderr(errors))
            if same_terminal(sys.stdout, self._fd):
                output = stack.enter_context(PrintsAbove(self, sys.stdout))
                stack.enter_context(contextlib.redirect_stdout(output))
            yield

    # On the thread

    def _work(self) -> None:
        with contextlib.suppress(OSError), self._live:  # the terminal is gone; the collection not
            while self._obey([self._orders.get(), *self._waiting()]):
                pass

    def _waiting(self) -> Iterator[str | Render | None]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._orders.get_nowait()

    def _obey(self, orders: Sequence[str | Render | None]) -> bool:
        """Print the lines and paint the last frame of `orders` in one write. False when `orders`
        has the end.
        """
        os.set_blocking(self._fd, True)  # whoever shares the terminal may have changed that
        texts = []
        for order in orders:
            if isinstance(order, str):
                texts.append(visible(order))
            elif order is not None:
                self._render = order
        # One column stays free: terminals differ in what a full line does to the cursor.
        columns, rows = self._size()
        self._console.size = ConsoleDimensions(columns - 1, rows - 1)
        self._live.show(self._render(columns - 1, rows - 1), columns)
        if texts:
            self._console.print(Text("\n".join(texts)), soft_wrap=True)
        else:
            self._live.refresh()
        return None not in orders

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return FALLBACK_SIZE
        return size if size.columns > 1 and size.lines > 1 else FALLBACK_SIZE


@final
class _Terminal(Console):
    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing: the cursor is never hidden."""
        return show


@final
class _Frame(Live):
    """The frame. It finds its first line again after the terminal becomes narrower or others write."""

    def __init__(self, console: Console, fd: int) -> None:
        super().__init__(
            console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._fd = fd
        self._breaks_lines = breaks_lines(os.environ)
        self._columns = sys.maxsize
        self._next: Sequence[int] = ()
        self._on_screen: Sequence[int] = ()
        """Widths of the lines that are painted next, and of those on the screen now."""
        self.is_elsewhere = False
        """Whether what is on the screen is no longer ours."""

    def show(self, lines: Sequence[Text], columns: int) -> None:
        """Set the lines of the next frame, on a terminal of `columns` columns."""
        self.update(Group(*lines))
        self._live_render.set_renderable(self.renderable)
        self._next = [line.cell_len for line in lines]
        self._columns = columns if self._breaks_lines else sys.maxsize

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return what to write: move up to the frame's first line, print the lines above, paint the
        new frame.
        """
        in_front = may_paint(self._fd)
        if self.is_elsewhere or not in_front:
            self._live_render, self._on_screen = LiveRender(self.renderable), ()
            self.is_elsewhere = not in_front
        if not in_front:
            return renderables
        rows = up_to_the_first(self._on_screen, self._columns)
        extra_rows = rows - up_to_the_first(self._on_screen, sys.maxsize)
        up = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * extra_rows
        self._on_screen = self._next
        return [Control(*up), *super().process_renderables(renderables)]


def up_to_the_first(widths: Sequence[int], columns: int) -> int:
    """Return how many rows above the cursor the frame begins. `widths`: the widths of its lines.

    A terminal that has become narrower has broken a long line into two or more rows.
    """
    return max(0, sum(max(1, -(-width // columns)) for width in widths) - 1)


def breaks_lines(environment: Mapping[str, str]) -> bool:
    """Whether the terminal wraps its lines again when it gets narrower, as most terminals do.

    The few terminals listed in the code cut the lines off instead. There, moving up further than
    the frame would erase other output.
    """
    term = environment.get("TERM", "")
    in_screen = term.startswith("screen") and "TMUX" not in environment
    return not (in_screen or "XTERM_VERSION" in environment or term.startswith(("linux", "st-")))


@final
class PrintsAbove(io.TextIOBase):
    """Replaces a standard stream: it prints complete lines on the screen, above the frame."""

    def __init__(self, screen: Screen, stream: TextIO) -> None:
        super().__init__()
        self._screen = screen
        self._stream = stream
        self._lock = threading.Lock()
        self._begun = ""

    def write(self, text: str, /) -> int:
        """Print the complete lines of `text`; keep an unfinished last line until the rest of it
        comes.
        """
        with self._lock:
            whole_lines, newline, unfinished = (self._begun + text).rpartition("\n")
            self._begun = unfinished
        if newline:
            self._screen.print(whole_lines)
        return len(text)

    def close(self) -> None:
        """Print the unfinished last line, and close."""
        if not self.closed and self._begun:
            self.write("\n")
        super().close()

    def writable(self) -> bool:
        """Return True: text can be printed to this stream."""
        return True

    def isatty(self) -> bool:
        """Return `isatty` of the replaced stream."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the replaced stream."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # TextIO's own is an attribute
        """The encoding of the replaced stream."""
        return self._stream.encoding


def same_terminal(stream: TextIO, fd: int) -> bool:
    """Whether `stream` and `fd` are the same terminal."""
    try:
        descriptor = stream.fileno()
        return os.isatty(descriptor) and os.fstat(descriptor).st_rdev == os.fstat(fd).st_rdev
    except (OSError, ValueError):  # closed, or no file at all
        return False


def may_paint(fd: int) -> bool:
    """Whether this process may paint: not while it runs in the background of its shell."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not our controlling terminal: nobody else's either
        return True


def is_a_screen(stream: TextIO) -> bool:
    """Whether a frame can be painted on `stream`."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}
