"""What the bytes of a file must be."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 1 << 20
_LENGTHS: Final = {40: "git blob", 64: "sha256"}


def chunks_of(path: Path) -> Iterator[bytes]:
    """The bytes of a file, a MiB at a time."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    digest = hashlib.sha256()
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


def git_blob_of(path: Path) -> str:
    """What git calls the file's content, in hex."""
    # Git's own choice of SHA-1: it names content, nothing is kept safe by it.
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest in hex: a sha256, or git's name of the content when it is that long."""

    hex: str

    @property
    def kind(self) -> str:
        """`sha256`, `git blob`; empty for what is neither, which nothing can be held to."""
        return _LENGTHS.get(len(self.hex), "")

    def of(self, path: Path) -> str:
        """The digest of this kind of a file."""
        return git_blob_of(path) if self.kind == "git blob" else sha256_of(path)
