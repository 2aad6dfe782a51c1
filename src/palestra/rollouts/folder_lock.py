"""One at a time: whoever opens, moves or replaces the files of a run in a folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from palestra.errors import InputDataError, KnownCause
from palestra.system import folder_locked

FOLDER_WAIT_S = 30.0


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other collections from moving files in `folder` meanwhile; waits a bounded time.

    Not every file system has such locks; where it has none, the journal's own is what is left.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(folder_locked(folder, wait_s=FOLDER_WAIT_S))
        except BlockingIOError:
            raise InputDataError(
                f"another collection has been starting in {folder} for {FOLDER_WAIT_S:.0f} s",
                hint="stop that one, or choose another output",
                cause=KnownCause.OUTPUT_IN_USE,
            ) from None
        yield
