"""A partial file that is written beside its destination and renamed when complete, and the check of
its digest.
"""

import contextlib
import errno
import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.errors import InfraError, InputDataError, RunFailed
from palestra.system import move, open_locked

CHUNK_BYTES: Final = 1 << 20
_LENGTHS: Final = {40: "git blob", 64: "sha256"}


def chunks_of(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hex."""
    digest = hashlib.sha256()
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


def git_blob_of(path: Path) -> str:
    """Return git's blob id of the file's content, in hex."""
    # Git's own choice of SHA-1: it names content, nothing is kept safe by it.
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest in hex: a sha256, or a git blob id; the length decides which."""

    hex: str

    @property
    def kind(self) -> str:
        """The kind of digest: `sha256` or `git blob`. Empty for any other text, which cannot be
        checked against a file.
        """
        return _LENGTHS.get(len(self.hex), "")

    def of(self, path: Path) -> str:
        """Return the file's digest of this kind."""
        return git_blob_of(path) if self.kind == "git blob" else sha256_of(path)


def free_destination(path: Path) -> Path:
    """Return `path` if a file can be written there. Raises InputDataError: `path` is a folder, or
    its parent is not writable.
    """
    if path.is_dir():
        raise InputDataError(
            f"{path} is a directory, not a file", hint="pass a directory with --output-dir instead"
        )
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise InputDataError(f"{path} cannot be written: {above} is not a directory")
    if not os.access(above, os.W_OK):
        raise InputDataError(f"{path} cannot be written: {above} belongs to another user")
    return path


@dataclass(slots=True)
class Arriving:
    """A partly downloaded file. `path`: the temporary file that holds the bytes so far."""

    path: Path
    destination: Path
    digest: Digest
    total_bytes: int | None

    @property
    def here_bytes(self) -> int:
        """The number of bytes downloaded so far."""
        return self.path.stat().st_size

    def start_afresh(self) -> None:
        """Delete the downloaded bytes and start again from zero."""
        os.truncate(self.path, 0)

    def append(self, chunks: Iterable[bytes], moved: Callable[[int], None]) -> None:
        """Write arriving chunks to the file and report their sizes to `moved`. Raises RunFailed:
        the disk cannot store them.
        """
        with self.path.open("ab", buffering=0) as file:
            for chunk in chunks:
                with keeping(self.destination):
                    file.write(chunk)
                moved(len(chunk))

    def put_in_place(self) -> None:
        """Check size and digest, then rename the file to its destination. Raises InfraError, and
        deletes the file: the bytes are wrong.
        """
        here_bytes = self.here_bytes
        if self.total_bytes is not None and here_bytes != self.total_bytes:
            self._forget()
            raise InfraError(
                f"{self.destination.name}: {here_bytes:,} bytes arrived of {self.total_bytes:,}",
                hint="nothing was written; run the command again",
            )
        if self.digest.kind and (actual := self.digest.of(self.path)) != self.digest.hex:
            self._forget()
            raise InfraError(
                f"{self.destination.name}: the {here_bytes:,} bytes that arrived have the "
                f"{self.digest.kind} {actual}, and should have {self.digest.hex}",
                hint="nothing was written; run the command again",
            )
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        move(self.path, self.destination)
        for stale_part in self.destination.parent.glob(
            f".{glob.escape(self.destination.name)}.*.part"
        ):
            _unlink_unless_locked(stale_part)

    def _forget(self) -> None:
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def keeping(destination: Path) -> Iterator[None]:
    """Turn an OSError in the body into RunFailed for `destination`."""
    try:
        yield
    except OSError as error:
        raise _cannot_keep(destination, error) from error


def _cannot_keep(destination: Path, error: OSError) -> RunFailed:
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return RunFailed(
        f"{destination} cannot be written: {error.strerror or error}",
        hint="free disk space, and run the same command again: it continues where this one stopped"
        if full
        else "",
    )


def _unlink_unless_locked(part: Path) -> None:
    """Delete a partial file of an earlier download, unless another process has locked it."""
    with contextlib.suppress(OSError), open_locked(part):
        part.unlink()


@contextlib.contextmanager
def arriving(destination: Path, digest: Digest, total_bytes: int | None) -> Iterator[Arriving]:
    """Yield the partial file for `destination`. It already contains the bytes of an earlier attempt
    with the same digest.

    The digest is part of the file's name, so bytes of a different version are never continued.
    Raises InputDataError: another process downloads the same file.
    """
    key = hashlib.sha256(digest.hex.encode()).hexdigest()[:16]
    path = destination.with_name(f".{destination.name}.{key}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open_locked(path)
    except BlockingIOError:
        raise InputDataError(f"{destination} is being downloaded by another process") from None
    except OSError as error:
        raise _cannot_keep(destination, error) from error
    with lock:
        part = Arriving(path, destination, digest, total_bytes)
        if total_bytes is not None and part.here_bytes > total_bytes:
            part.start_afresh()
        yield part
