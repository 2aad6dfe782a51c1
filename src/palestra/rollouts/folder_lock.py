"""A lock on a folder of runs: only one process at a time opens, moves or replaces files there."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from palestra.errors import InputDataError, KnownCause
from palestra.system import folder_locked

FOLDER_WAIT_S = 30.0


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock `folder` against other collections while the body runs. The wait for the lock is
    bounded.

    Some file systems do not support such locks; there, only the journal's own lock protects the
    files.
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
