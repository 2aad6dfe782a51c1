"""Write the merged files: under temporary names, synced, then renamed, the output last.

A merge that is killed at any moment leaves the old files, or files that the same command completes:
the output exists only when everything else exists. The output's temporary file is also the lock
against a second merge.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, Protocol

from palestra.errors import InputDataError, KnownCause, Layer, RunFailed
from palestra.rollouts.journal import check_free
from palestra.rollouts.merging.plan import Rows
from palestra.rollouts.merging.sources import BUFFER_BYTES, NumberedFiles, RowPlace
from palestra.schema import RunPaths
from palestra.system import (
    is_file_at,
    move,
    open_locked,
    remove_empty,
    set_aside,
    sync,
    sync_folder,
)


class MergeFailed(RunFailed):
    """The merged files could not be written. No data is lost, and the shards are unchanged."""

    layer = Layer.INFRA


class _TargetState(Enum):
    ABSENT = auto()
    SAME = auto()
    OTHER = auto()


class Content(Protocol):
    """The content of a file to be written."""

    @property
    def size(self) -> int:
        """The size in bytes."""

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes in blocks."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Content that is copied from rows of other files."""

    rows: Rows
    sources: NumberedFiles

    @property
    def size(self) -> int:
        return self.rows.size

    def blocks(self) -> Iterator[bytes]:
        for source, offset, length in self.rows.stretches():
            for start in range(0, length, BUFFER_BYTES):
                block = RowPlace(source, offset + start, min(BUFFER_BYTES, length - start))
                yield self.sources.read(block)


@dataclass(frozen=True, slots=True)
class Text:
    """Content given as bytes."""

    text: bytes

    @property
    def size(self) -> int:
        return len(self.text)

    def blocks(self) -> Iterator[bytes]:
        yield self.text


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """One file of the merge. `content`: None when the file must not exist."""

    path: Path
    content: Content | None

    @property
    def beside(self) -> Path:
        """The file's temporary path."""
        return self.path.with_name(self.path.name + ".merging")

    def state(self) -> _TargetState:
        """Compare the existing file with the content: absent, same or other."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return _TargetState.ABSENT if self.content else _TargetState.SAME
        if self.content is None or stat.st_size != self.content.size:
            return _TargetState.OTHER
        with self.path.open("rb", buffering=BUFFER_BYTES) as file:
            same = all(file.read(len(block)) == block for block in self.content.blocks())
        return _TargetState.SAME if same else _TargetState.OTHER


def write_targets(
    paths: RunPaths, targets: Sequence[MergeTarget], sources: NumberedFiles, *, overwrite: bool
) -> tuple[str, ...]:
    """Write all `targets`, the output last, and return notices about existing files.

    Raises InputDataError: other files exist and `overwrite` is false, another merge or a collection
    writes to them, or a shard changes during the merge. MergeFailed: the disk refuses the files.
    """
    new_folders = tuple(folder for folder in paths.output.parents if not folder.exists())
    try:
        paths.output.parent.mkdir(parents=True, exist_ok=True)
        with _only_merge(targets[-1]) as staging:
            return _replace(paths, targets, sources, staging, overwrite=overwrite)
    except OSError as error:
        raise MergeFailed(
            f"cannot write {error.filename or paths.output}: {error.strerror}",
            hint="free disk space or correct the permissions, then merge again: the shards are "
            "unchanged",
        ) from error
    finally:
        remove_empty(new_folders)  # only those that are still empty


def _replace(
    paths: RunPaths,
    targets: Sequence[MergeTarget],
    sources: NumberedFiles,
    staging: BinaryIO,
    *,
    overwrite: bool,
) -> tuple[str, ...]:
    states = {target.path: target.state() for target in targets}
    stale = [path for path, state in states.items() if state is _TargetState.OTHER]
    todo = [target for target in targets if states[target.path] is not _TargetState.SAME]
    if not todo:
        return (f"{paths.output} exists already with the same content",)
    if stale and not overwrite:
        raise InputDataError(
            f"{stale[-1]} exists already and has other content",
            hint="merge to another output, or replace it with --overwrite (it is kept as .bak)",
            cause=KnownCause.OUTPUT_EXISTS,
        )
    check_free(paths.output)
    changed_targets = [target for target in todo if target.content is not None]
    try:
        for target in changed_targets:
            _stage(target, staging if target is targets[-1] else None)
        sources.check_unchanged()
        notices = _move_aside(paths, stale)
        _commit(changed_targets)
    finally:
        for target in targets[:-1]:
            target.beside.unlink(missing_ok=True)
    return notices


@contextlib.contextmanager
def _only_merge(output: MergeTarget) -> Iterator[BinaryIO]:
    """Yield the output's temporary file, locked by this merge."""
    file = _open_alone(output.beside)
    try:
        yield file
    finally:
        # Renamed when all went well: then there is nothing under this name, or another's.
        if is_file_at(file, output.beside):
            output.beside.unlink()
        file.close()


def _open_alone(path: Path) -> BinaryIO:
    try:
        return open_locked(path)
    except BlockingIOError:
        raise InputDataError(
            f"another merge is writing {path.with_suffix('')}",
            hint="wait for that one, or choose another output",
            cause=KnownCause.OUTPUT_IN_USE,
        ) from None


def _stage(target: MergeTarget, staging: BinaryIO | None) -> None:
    """Write a target under its temporary name and sync it to disk."""
    with contextlib.ExitStack() as stack:
        if staging is None:
            staging = stack.enter_context(target.beside.open("wb"))
        staging.truncate(0)
        staging.writelines(target.content.blocks() if target.content else ())
        sync(staging)


def _move_aside(paths: RunPaths, stale: Sequence[Path]) -> tuple[str, ...]:
    """Rename existing files to `.bak`: first files derived from the output, then the output, then
    its companion files.
    """
    if not stale:
        return ()
    made_from_it = (paths.aggregate_metrics, *paths.derived())
    moved = [path for path in made_from_it if path.exists()]
    moved += reversed(stale)
    set_aside(moved, ".bak")
    return (f"moved {len(moved)} files of an earlier run to <name>.bak",)


def _commit(targets: Sequence[MergeTarget]) -> None:
    """Rename the temporary files to their final names, in order."""
    for number, target in enumerate(targets, start=1):
        if number == len(targets) > 1:
            # No crash may keep the output and lose what goes with it.
            sync_folder(target.path.parent)
        move(target.beside, target.path)
    if targets:
        sync_folder(targets[-1].path.parent)
