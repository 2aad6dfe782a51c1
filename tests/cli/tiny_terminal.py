"""A terminal of a few escape sequences, and the pseudo-terminal to put it on."""

import fcntl
import os
import re
import select
import struct
import termios
import time
from collections.abc import Callable

_TOKENS = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b\[[\d;]*m|[\r\n]|[^\x1b\r\n]+|\x1b.?", re.DOTALL)


class TinyTerminal:
    """Shows what a program paints; anything but the few sequences that ours may use is an error."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines = [""]
        self.widest = 0
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for token in _TOKENS.finditer(text):
            self._take(token.group(), token.group(1), token.group(2))

    def _take(self, token: str, number: str | None, command: str | None) -> None:
        line = self.lines[self._row]
        if token == "\r":
            self._column = 0
        elif token == "\n":
            self._row += 1
            self.lines += [""] * (self._row == len(self.lines))
        elif command == "A":
            self._row = max(0, self._row - int(number or 1))
        elif command == "K":
            self.lines[self._row] = "" if number == "2" else line[: self._column]
        elif command == "J":
            self.lines[self._row :] = [line[: self._column]]
        elif token.startswith("\x1b"):
            assert token.endswith("m"), f"an escape sequence that nobody should write: {token!r}"
        else:
            self.lines[self._row] = (
                line[: self._column].ljust(self._column) + token + line[self._column + len(token) :]
            )
            self._column += len(token)
            self.widest = max(self.widest, self._column)

    def move_to(self, *, row: int, column: int) -> None:
        self._row, self._column = row, column

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")


class Pty:
    """A pseudo-terminal whose screen is a `TinyTerminal`. `slave` is the program's end."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, self.slave = os.openpty()
        self.screen = TinyTerminal(columns, rows)
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, holds: Callable[[], bool], *, timeout_s: float = 20) -> None:
        """Read until the screen is as it should be."""
        deadline = time.monotonic() + timeout_s
        pending = b""
        poll = select.poll()
        poll.register(self._master, select.POLLIN)
        while not holds():
            assert time.monotonic() < deadline, self.screen.text
            if not poll.poll(50):
                continue
            pending += os.read(self._master, 65536)
            whole = pending[: pending.rfind(b"\x1b")] if _torn(pending) else pending
            pending = pending[len(whole) :]
            self.screen.feed(whole.decode())

    def shows(self, text: str) -> None:
        """Read until `text` is on the screen."""
        self.until(lambda: text in self.screen.text)

    def close(self) -> None:
        os.close(self._master)
        os.close(self.slave)


def _torn(raw: bytes) -> bool:
    """Whether the last escape sequence may go on, or a character is incomplete."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return re.search(rb"\x1b(\[[\d;]*)?$", raw) is not None
