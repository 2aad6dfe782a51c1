"""A file that is about to be sent."""

from dataclasses import dataclass
from pathlib import Path

from palestra.datasets.transfer.digests import sha256_of
from palestra.errors import InputDataError


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
