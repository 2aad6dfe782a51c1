"""One at a time: whoever opens, moves or replaces the files of a run in a folder."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from palestra.errors import InputDataError

FOLDER_WAIT_S = 30.0


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other collections from moving files in `folder` meanwhile; waits a bounded time.

    Not every file system has such locks; where it has none, the journal's own is what is left.
    """
    held = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + FOLDER_WAIT_S
    try:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputDataError(
                        f"another collection has been starting in {folder} for "
                        f"{FOLDER_WAIT_S:.0f} s",
                        hint="stop that one, or choose another output",
                    ) from None
                time.sleep(0.05)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(held)
