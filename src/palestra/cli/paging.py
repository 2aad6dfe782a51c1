"""Shows a long text in the user's pager."""

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, TextIO, final

from palestra.cli.terminal import is_a_screen

_PAGER: Final = "less -R"


@contextlib.contextmanager
def paged() -> Iterator[None]:
    """Show what the body prints on standard output in `$PAGER`, when it does not fit the terminal.

    Without a terminal, or without a pager, the text is printed as it is.
    """
    if not (sys.stdin.isatty() and is_a_screen(sys.stdout)):
        yield
        return
    screen = sys.stdout
    pages = _Pages(screen)
    with contextlib.redirect_stdout(pages):
        yield
    text = pages.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines or not _shown_by_pager(text):
        screen.write(text)
        screen.flush()


def _shown_by_pager(text: str) -> bool:
    """Show the text in the pager. Returns False when there is none."""
    command = shlex.split(os.environ.get("PAGER") or _PAGER)
    if not command or shutil.which(command[0]) is None:
        return False
    # The user may leave the pager before it has read everything.
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8") as pager,  # noqa: S603
        contextlib.suppress(BrokenPipeError, KeyboardInterrupt),
    ):
        pager.communicate(text)
    return True


@final
class _Pages(io.StringIO):
    """Collects text for a terminal: programs see the terminal's properties."""

    def __init__(self, screen: TextIO) -> None:
        super().__init__()
        self._screen = screen

    def isatty(self) -> bool:
        """Return True: the text is for a terminal."""
        return True

    def fileno(self) -> int:
        """Return the terminal's file descriptor."""
        return self._screen.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # TextIO's own is an attribute
        """The encoding of the terminal."""
        return self._screen.encoding
