"""Keeps an index up to date with the files of its run."""

import contextlib
import errno
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import BinaryIO, Final, Self

from palestra.system import open_locked
from palestra.viewer.index import commits
from palestra.viewer.index.bounds import LOCK, USUAL_BOUNDS, IndexBounds, remove
from palestra.viewer.index.building import Builder
from palestra.viewer.index.commits import Commit
from palestra.viewer.index.snapshot import IndexSnapshot
from palestra.viewer.index.sources import run_sources
from palestra.viewer.index.storage import (
    COMMIT,
    StorageFull,
    StoredColumns,
    read_commit,
    remove_others,
    write_commit,
)

_CHECKED_BYTES: Final = 64 << 20
"""The bounds are looked at whenever the index has grown by so much."""
COMMIT_EVERY_S: Final = 0.5
"""A long read is committed so often, so that little is lost when the memory or the disk is full."""
_JOIN_SHARE: Final = 4
"""A snapshot is made when at least so many times its cost has passed since the last one."""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How much of the run's files is indexed, in bytes of the files on disk."""

    bytes_indexed: int = 0
    bytes_total: int = 0
    rebuilt: str = ""
    """Why the index was built anew; empty when it was not."""
    is_writer: bool = False
    """Whether this process writes the index; else it follows another viewer."""
    in_memory: str = ""
    """Why the index is in memory only; empty when it is in the cache."""
    has_more: bool = True
    """Whether whole lines wait to be indexed, here or in the viewer that writes the index."""
    is_full: bool = False
    """Whether the rest of the files is left out, because the memory for indexes is used up."""


class Index:
    """The index of one run. Use as a context manager; `close` gives up the lock.

    `folder`: where it is; None, with the reason `in_memory`, keeps it in memory.
    """

    def __init__(
        self,
        outputs: Sequence[Path],
        folder: Path | None,
        *,
        family: str = "",
        in_memory: str = "",
        bounds: IndexBounds = USUAL_BOUNDS,
    ) -> None:
        self._outputs = [Path(os.path.abspath(output)) for output in outputs]  # noqa: PTH100
        self._folder = folder
        self._family = family.split(".") if family else []
        self._lock: BinaryIO | None = None
        self._builder: Builder | None = None
        self._columns: StoredColumns | None = None
        self._commit = Commit("", outputs=list(map(str, self._outputs)))
        self._rebuilt, self._in_memory = "", in_memory
        self._is_full = False
        self._bounds, self._bounded_size = bounds, 0
        self._seen: bytes | None = None
        self._cost_s, self._made_at = 0.0, -inf
        self._snapshot = IndexSnapshot(StoredColumns(None), self._commit)
        self.progress = IndexProgress(in_memory=in_memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def snapshot(self) -> IndexSnapshot:
        """The last snapshot. Before the first `refresh` it is empty."""
        return self._snapshot

    @property
    def is_current(self) -> bool:
        """Whether the snapshot has everything that is indexed."""
        return self._snapshot.version == self._commit.version

    def refresh(self, budget_s: float = 0.5) -> IndexSnapshot:
        """Read what was appended to the files, for about `budget_s` seconds; return the snapshot.

        Call it again at once while `progress` has bytes left, else about each second. One thread at
        a time. Without a change it costs one `stat` per file and returns the same snapshot. A large
        index gets a new snapshot less often than it is read, unless `budget_s` is infinite.
        """
        if self._builder is None:
            self._begin()
        if self._builder is None:
            self._follow()
        elif not self._is_full:
            self._write(time.monotonic() + budget_s)
        self._renew(at_once=budget_s == inf)
        self._report()
        return self._snapshot

    def close(self) -> None:
        """Release the lock and the files. Snapshots stay readable."""
        if self._builder is not None:
            self._builder.close()
        if self._columns is not None:
            self._columns.close()
        if self._lock is not None:
            self._lock.close()
        self._builder = self._lock = None

    # Writing

    def _begin(self) -> None:
        """Become the writer, unless another viewer is."""
        if self._folder is None:
            self._begin_anew("")
            return
        try:
            self._lock = open_locked(self._folder / LOCK, mode=0o600)
        except BlockingIOError:
            return
        except OSError as error:
            self._to_memory(f"the cache cannot be written: {error.strerror}")
            return
        with self._memory_instead():
            self._take_over(self._folder)

    def _take_over(self, folder: Path) -> None:
        """Go on from the last commit, if it can be trusted."""
        data = read_commit(folder)
        commit = commits.read(data)
        if commit is None or not (folder / commit.generation).is_dir():
            self._begin_anew("" if data is None else "the index was damaged or of another version")
            return
        columns = StoredColumns(folder / commit.generation, commit.columns)
        reason = columns.problem()
        if reason:
            self._begin_anew(reason)
            return
        columns.cut()
        self._columns, self._commit = columns, commit
        self._builder = self._new_builder(columns, commit)

    def _begin_anew(self, reason: str) -> None:
        if self._builder is not None:
            self._builder.close()
        generation = os.urandom(8).hex()
        folder = self._folder
        columns = StoredColumns(
            None if folder is None else folder / generation,
            memory_bytes=self._bounds.memory_bytes,
        )
        version = self._commit.version + 1
        outputs = list(map(str, self._outputs))
        self._commit = Commit(generation, version=version, outputs=outputs)
        self._columns, self._rebuilt = columns, reason or self._rebuilt
        self._builder = self._new_builder(columns, self._commit)
        if folder is not None:
            self._store(folder)
            remove_others(folder, generation)

    def _new_builder(self, columns: StoredColumns, commit: Commit) -> Builder:
        return Builder(self._outputs, columns, commit, family=self._family)

    def _write(self, deadline: float) -> None:
        with self._memory_instead():
            if self._builder is not None and (reason := self._builder.why_invalid()):
                self._begin_anew(reason)
            while self._builder is not None:
                if self._builder.read(min(deadline, time.monotonic() + COMMIT_EVERY_S)):
                    self._commit = self._builder.commit()
                    if self._folder is not None:
                        self._store(self._folder)
                        self._keep_within_bounds(self._folder)
                if not self._builder.has_more or time.monotonic() >= deadline:
                    return

    def _keep_within_bounds(self, folder: Path) -> None:
        """Go on in memory when the index has outgrown the bounds."""
        size = self._columns.size if self._columns is not None else 0
        limit = min(_CHECKED_BYTES, self._bounds.indexes_bytes)
        is_large = size - self._bounded_size > limit
        if not is_large and self._bounds.has_room(folder.parent):
            return
        self._bounded_size = size
        if reason := self._bounds.problem(folder.parent, folder):
            remove(folder / self._commit.generation)
            self._to_memory(reason)

    def _store(self, folder: Path) -> None:
        data = self._commit.encoded()
        write_commit(folder, data)

    @contextlib.contextmanager
    def _memory_instead(self) -> Iterator[None]:
        """Go on in memory when the body cannot write the cache; stop when the memory is used up."""
        try:
            yield
        except StorageFull:
            self._is_full = True
            self._in_memory = f"{self._in_memory}; the memory for indexes is used up".lstrip("; ")
        except OSError as error:
            if error.errno == errno.ENOSYS:  # the run's file needs an extra; the cache is fine
                raise
            self._to_memory(f"the cache cannot be written: {error.strerror}")

    def _to_memory(self, reason: str) -> None:
        """Begin anew in memory. Another viewer may take the folder over."""
        if self._folder is not None and self._lock is not None:
            with contextlib.suppress(OSError):
                (self._folder / COMMIT).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None
        self._folder, self._in_memory = None, reason
        self._begin_anew("")

    # Following

    def _follow(self) -> None:
        """Take what another viewer committed."""
        data = read_commit(self._folder) if self._folder is not None else None
        if self._folder is None or data == self._seen:
            return
        commit = commits.read(data)
        if commit is not None:
            self._seen = data
            self._columns = StoredColumns(self._folder / commit.generation, commit.columns)
            self._commit = commit

    # Snapshots

    def _renew(self, *, at_once: bool) -> None:
        if self.is_current or self._columns is None:
            return
        if not at_once and time.monotonic() - self._made_at < _JOIN_SHARE * self._cost_s:
            return
        began = time.monotonic()
        with contextlib.suppress(FileNotFoundError):  # the writer has begun anew
            self._snapshot = IndexSnapshot(self._columns, self._commit)
        self._made_at = time.monotonic()
        self._cost_s = self._made_at - began

    def _report(self) -> None:
        sources = self._commit.sources or list(run_sources(self._outputs))
        indexed = sum(source.bytes_indexed() for source in sources)
        total = max(sum(source.bytes_total() for source in sources), indexed)
        self.progress = IndexProgress(
            bytes_indexed=indexed,
            bytes_total=total,
            rebuilt=self._rebuilt,
            is_writer=self._builder is not None,
            in_memory=self._in_memory,
            has_more=not self._is_full and self._has_more(),
            is_full=self._is_full,
        )

    def _has_more(self) -> bool:
        if self._builder is not None:
            return self._builder.has_more
        if not self._commit.sources:  # the writer has not committed
            return any(run_sources(self._outputs))
        return any(source.has_line() for source in self._commit.sources)
