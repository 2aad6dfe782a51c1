"""Output files that are written under temporary names and renamed only when all are complete.

A preparation that is killed at any moment leaves the old files, or complete new ones. It writes to
`<name>.preparing`, and the next preparation reuses that file. The same file is the lock that stops
two preparations from writing the same output.
"""

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self

from palestra.errors import BadInput, InputDataError, KnownCause, Layer
from palestra.system import move, open_locked, remove_empty, sync

_BESIDE: Final = "metrics and prepared rows are written next to the data: make its folder writable"
_HINTS: Final = {
    errno.EACCES: _BESIDE,
    errno.EROFS: _BESIDE,
    errno.ENOSPC: "nothing was changed; free disk space: new files are written next to the old "
    "ones first",
}


class CannotWrite(BadInput):
    """A file or folder cannot be written. Nothing was changed."""

    layer = Layer.INFRA


class Outputs:
    """New files that appear under their names only after `put_in_place`."""

    def __init__(self) -> None:
        self._open: dict[Path, BinaryIO] = {}
        self._made: list[Path] = []
        """Folders that were not there before, innermost first."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path, file in self._open.items():
            with contextlib.suppress(OSError):
                _metrics_path(path).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # what it still holds need not go anywhere
                file.close()
        self._open.clear()
        remove_empty(self._made)

    def make(self, path: Path) -> Callable[[bytes], None]:
        """Create an empty temporary file for `path` and return the function that appends bytes to
        it. Raises CannotWrite: the disk refuses. InputDataError: another preparation writes the
        file.
        """
        if path.is_dir():
            raise CannotWrite(
                f"cannot write {path}: it is a folder", hint="pass the path of a file"
            )
        with telling(path):
            self._made[:0] = [folder for folder in path.parents if not folder.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                file = open_locked(_metrics_path(path))
            except BlockingIOError:
                raise InputDataError(
                    f"{path} is being written by another preparation",
                    hint="wait for it, or give another --output-dir",
                    cause=KnownCause.OUTPUT_IN_USE,
                ) from None
            self._open[path] = file
            file.truncate(0)

        def write(data: bytes) -> None:
            try:
                file.write(data)
            except OSError as error:
                raise _cannot_write(path, error) from error

        return write

    def put_in_place(self) -> None:
        """Rename all files to their final names. The file that was created first is renamed last."""
        for path, file in self._open.items():
            with telling(path):
                sync(file)
        for path, file in reversed(list(self._open.items())):
            with telling(path):
                move(_metrics_path(path), path)
            del self._open[path]
            file.close()


def _metrics_path(path: Path) -> Path:
    return path.with_name(path.name + ".preparing")


@contextlib.contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn an OSError in the body into CannotWrite for `path`."""
    try:
        yield
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> CannotWrite:
    return CannotWrite(
        f"cannot write {path}: {error.strerror or error}",
        hint=_HINTS.get(error.errno or 0, "nothing was changed"),
    )
