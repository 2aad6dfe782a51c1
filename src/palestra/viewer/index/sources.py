"""The files of a run: which there are, how far each is indexed, and whether it is still the same."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from palestra.schema import RunPaths, is_compressed, with_compressed
from palestra.system import FileState
from palestra.viewer.index.places import RunPart

COMPARED_BYTES: Final = 1 << 16
"""How much of the beginning and of the committed end is compared with what was indexed."""


class IndexedFile(msgspec.Struct):
    """One file of a run. `number`: its place in the list of files. `offset`, `line`: where the first
    line begins that is not indexed, in the uncompressed file.
    """

    path: str
    part: RunPart
    number: int
    device: int = 0
    inode: int = 0
    offset: int = 0
    line: int = 1
    packed: bool = False
    packed_size: int = 0
    """The size of a packed file when it was indexed."""
    is_finished: bool = False
    """Whether a packed file was read to its end."""
    has_copy: bool = False
    is_outcomes: bool = False
    """Whether its lines are outcomes of training."""
    first: str = ""
    last: str = ""

    def seal(self) -> None:
        """Compute the digests of what is indexed. Raises OSError: the file is gone."""
        with Path(self.path).open("rb") as file:
            self.first, self.last = self._digests(file)

    def is_file(self, descriptor: int) -> bool:
        """Whether an open file is this one."""
        status = os.fstat(descriptor)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)

    def has_line(self) -> bool:
        """Whether a whole line waits behind what is indexed."""
        if self.packed:
            return not self.is_finished
        with contextlib.suppress(OSError), Path(self.path).open("rb") as file:
            file.seek(self.offset)
            while piece := file.read(COMPARED_BYTES):
                if b"\n" in piece:
                    return True
        return False

    def bytes_total(self) -> int:
        try:
            return Path(self.path).stat().st_size
        except OSError:
            return self.bytes_indexed()

    def bytes_indexed(self) -> int:
        """Return how much of the file is indexed, in bytes on disk."""
        if not self.packed:
            return self.offset
        return self.packed_size if self.is_finished else 0

    def why_invalid(self) -> str:
        """Return why the file is not the one that was indexed; empty when it is."""
        try:
            with Path(self.path).open("rb") as file:
                status = os.fstat(file.fileno())
                is_unfinished = self.packed and not self.is_finished
                is_longer = self.packed and status.st_size != self.packed_size
                reasons = (
                    (not self.is_file(file.fileno()), "was replaced"),
                    (is_unfinished, "was not read to its end"),
                    (status.st_size < self.bytes_indexed(), "was cut"),
                    (is_longer or self._digests(file) != (self.first, self.last), "changed"),
                )
        except OSError as error:
            return f"{self.path}: {error.strerror}"
        return next((f"{self.path} {reason}" for is_true, reason in reasons if is_true), "")

    def _digests(self, file: BinaryIO) -> tuple[str, str]:
        end = self.bytes_indexed()
        first = os.pread(file.fileno(), min(COMPARED_BYTES, end), 0)
        start = max(end - COMPARED_BYTES, 0)
        last = os.pread(file.fileno(), end - start, start)
        return _digest(first), _digest(last)


class Watched:
    """Remembers when each source was compared, so that unchanged files cost one `stat`."""

    def __init__(self) -> None:
        self._settled: dict[str, FileState] = {}

    def why_invalid(self, source: IndexedFile) -> str:
        """Return why a source is not the one that was indexed; empty when it is."""
        state = FileState.at(Path(source.path))
        if state is not None and self._settled.get(source.path) == state:
            return ""
        reason = source.why_invalid()
        if state is not None and not reason and state.is_settled:
            self._settled[source.path] = state
        return reason


def run_sources(outputs: Sequence[Path]) -> Iterator[IndexedFile]:
    """Yield the files of a run that exist, with nothing indexed: inputs first, then failures, then
    results. A file has the same number whether or not others exist.
    """
    paths = [RunPaths(output) for output in outputs]
    parts = (
        (RunPart.INPUT, [p.materialized_inputs for p in paths]),
        (RunPart.FAILURE, [p.failures for p in paths]),
        (RunPart.RESULT, [p.output for p in paths]),
    )
    for part_number, (part, candidates) in enumerate(parts):
        for position, candidate in enumerate(candidates):
            existing = candidate if candidate.exists() else with_compressed(candidate)
            if existing is not None and existing.is_file():
                with contextlib.suppress(OSError):  # removed in between
                    yield new_source(part, existing, position * len(parts) + part_number)


def new_source(part: RunPart, path: Path, number: int) -> IndexedFile:
    """Return a file of which nothing is indexed. Raises OSError: it is gone."""
    status = path.stat()
    return IndexedFile(
        path=str(path),
        part=part,
        number=number,
        device=status.st_dev,
        inode=status.st_ino,
        packed=is_compressed(path),
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
