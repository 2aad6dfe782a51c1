"""A file to upload, and the display of transfer progress."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final

from palestra.datasets.problems import missing_file
from palestra.datasets.transfer.files import sha256_of
from palestra.errors import InputDataError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class UploadProgress(Protocol):
    """Shows the progress of transfers, one after another."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
        """Start showing a transfer. `done_bytes`: bytes that an earlier attempt already
        transferred.
        """

    def advance(self, count: int, /) -> None:
        """Add `count` transferred bytes. `count` is negative when a transfer had to start again."""

    def end(self) -> None:
        """Stop showing the transfer, whether it succeeded or failed."""


@final
class Silent:
    """A progress display that shows nothing."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
        """Do nothing."""

    def advance(self, count: int, /) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


@final
class CountedReader(io.FileIO):
    """A file object that reports how many bytes an HTTP client has read from it."""

    def __init__(self, path: Path, progress: UploadProgress) -> None:
        super().__init__(path, "rb")
        self._progress = progress
        self.told = 0
        """Bytes of it that were told."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes as a normal file does, and report them."""
        data = super().read(-1 if size is None else size)
        self._report()
        return data or b""

    def readinto(self, buffer: "Buffer", /) -> int:
        """Read bytes into `buffer` as a normal file does, and report them."""
        count = super().readinto(buffer)
        self._report()
        return count or 0

    def _report(self) -> None:
        """Report newly read bytes. A body that is sent again from its start is not counted twice."""
        at = self.tell()
        if at > self.told:
            self._progress.advance(at - self.told)
            self.told = at


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file to upload, with its size and sha256 for the comparison after the upload."""

    path: Path
    size_bytes: int
    sha256: str


def outgoing(path: Path) -> Outgoing:
    """Read a file's size and sha256. Raises InputDataError: the file does not exist or is empty."""
    if not path.is_file():
        raise missing_file(path, "input_jsonl_fpath:")
    size = path.stat().st_size
    if size == 0:
        raise InputDataError(f"{path} is empty", hint="nothing was uploaded")
    return Outgoing(path, size, sha256_of(path))
