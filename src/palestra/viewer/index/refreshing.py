"""Keeps an index up to date with the files of its run."""

from dataclasses import dataclass

from palestra.viewer.index.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the run's files is indexed, in bytes of the files on disk."""

    bytes_indexed: int
    bytes_total: int
    rebuilt: str = ""
    """Why the index was built anew; empty when it was not."""
    is_writer: bool = True
    """Whether this process writes the index; else it follows another viewer."""
    in_memory: str = ""
    """Why the index is in memory only; empty when it is in the cache."""


class Index:
    """The index of one run. Use as a context manager; `close` gives up the lock."""

    progress: Progress

    @property
    def snapshot(self) -> Snapshot:
        """The last snapshot. Before the first `refresh` it has the rows that were indexed earlier."""
        raise NotImplementedError

    def refresh(self, budget_s: float = 0.5) -> Snapshot:
        """Read what was appended to the files, for about `budget_s` seconds; return the snapshot.

        Call it again at once while `progress` has bytes left, else about each second. One thread at
        a time. Without a change it costs one `stat` per file and returns the same snapshot.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release the lock and the files. Snapshots stay readable."""
        raise NotImplementedError
