"""A file that is about to be sent, and who is told how many bytes have moved."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

from typing_extensions import Buffer

from palestra.datasets.transfer.files import sha256_of
from palestra.errors import InputDataError


class UploadProgress(Protocol):
    """Shows one transfer after another."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
        """A transfer begins, of which `done_bytes` were there already."""

    def advance(self, count: int, /) -> None:
        """So many bytes more; fewer when a transfer had to begin anew."""

    def end(self) -> None:
        """The transfer is over, one way or the other."""


@final
class Silent:
    """Shows nothing."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
        """Nothing."""

    def advance(self, count: int, /) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


@final
class CountedReader(io.FileIO):
    """A file that tells how much of it has been read, as an HTTP client reads a body."""

    def __init__(self, path: Path, progress: UploadProgress) -> None:
        super().__init__(path, "rb")
        self._progress = progress
        self.told = 0
        """Bytes of it that were told."""

    def read(self, size: int | None = -1, /) -> bytes:
        """As a file."""
        data = super().read(-1 if size is None else size)
        self._tell()
        return data or b""

    def readinto(self, buffer: Buffer, /) -> int:
        """As a file."""
        count = super().readinto(buffer)
        self._tell()
        return count or 0

    def _tell(self) -> None:
        """Only forward: a body that is sent again from its start has moved no further."""
        at = self.tell()
        if at > self.told:
            self._progress.advance(at - self.told)
            self.told = at


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file and what its bytes are, so that what arrives can be compared."""

    path: Path
    size_bytes: int
    sha256: str


def outgoing(path: Path) -> Outgoing:
    """Look at a file. Raises InputDataError when there is nothing to send."""
    if not path.is_file():
        raise InputDataError(f"input_jsonl_fpath: there is no file {path}")
    size = path.stat().st_size
    if size == 0:
        raise InputDataError(f"{path} is empty", hint="nothing was uploaded")
    return Outgoing(path, size, sha256_of(path))
