"""Shows a collection in one line that is written again and again, for scripts and notebooks."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Final, TextIO, final

from palestra.engine import Accounting
from palestra.system import background

WRITE_EVERY_S: Final = 0.5


def is_watched() -> bool:
    """Whether a person sees the output: it goes to a terminal or a notebook."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()


@final
class ProgressLine:
    """Writes lines for a person to a stream. `on` False: it writes nothing."""

    def __init__(self, stream: TextIO | None = None, *, on: bool) -> None:
        self._stream = stream or sys.stderr
        self._on = on
        self._width = 0

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        self._write(text, "\n")
        self._width = 0

    @contextlib.asynccontextmanager
    async def shown(self, accounting: Accounting) -> AsyncIterator[None]:
        """Show the counts while the body runs, and the last ones afterwards."""
        try:
            async with background(self._show(accounting)):
                yield
        finally:
            self.tell(_counts(accounting))

    async def _show(self, accounting: Accounting) -> None:
        while True:
            self._write(_counts(accounting), "")
            await asyncio.sleep(WRITE_EVERY_S)

    def _write(self, text: str, end: str) -> None:
        if self._on:
            self._stream.write(f"\r{text:<{self._width}}{end}")
            self._stream.flush()
            self._width = len(text)


def _counts(accounting: Accounting) -> str:
    mean = accounting.mean_reward
    return accounting.line() + ("" if mean is None else f", mean reward {mean:.3f}")
