"""How many different values there are, by digests of 64 bits, in bounded memory.

Two different values share a digest once in 2 to the 64: among a million of them, some two do with a
probability of 3 in 100 million.
"""

import tempfile
import weakref
from collections.abc import Iterable, Sequence
from typing import IO, Final

import numpy as np
import numpy.typing as npt

Digests = npt.NDArray[np.uint64]

MOST_HELD: Final = 1 << 17
"""Digests of one measure that are held in memory (1 MiB); more go to a file, in sorted runs."""
_BYTES: Final = 8


def as_array(digests: Iterable[int]) -> Digests:
    """Digests as they are taken."""
    return np.fromiter(digests, np.uint64)


class Uniques:
    """A set of digests that can only be counted. Its file is nameless, and gone with the process."""

    def __init__(self, *, most_held: int = MOST_HELD) -> None:
        self._most = most_held
        self._seen: Digests = np.empty(0, np.uint64)
        self._new: list[Digests] = []
        self._pending = 0
        self._file: IO[bytes] | None = None
        self._runs: list[int] = []
        """Lengths of the sorted runs in the file, one after the other."""

    def add(self, digests: Digests) -> None:
        """Take these, whether they were here before or not."""
        self._new.append(digests)
        self._pending += len(digests)
        if self._pending >= max(self._most // 4, len(self._seen) // 2):
            self._settle()

    def merge(self, added: "Uniques") -> None:
        """Take all that `added` has."""
        for run in added.runs():
            for start in range(0, len(run), self._most):
                self.add(run[start : start + self._most])

    def held(self) -> Digests:
        """Those in memory, each once."""
        self._settle()
        return self._seen

    def __len__(self) -> int:
        """How many different ones."""
        runs = self.runs()
        if len(runs) < 2:
            return sum(map(len, runs))
        # Digests are spread evenly: a slice of the numbers is a like slice of every run.
        parts = -(-sum(map(len, runs)) // self._most)
        edges = np.linspace(0, 2.0**64, parts + 1)[1:-1].astype(np.uint64)
        cuts = [[0, *np.searchsorted(run, edges), len(run)] for run in runs]
        return sum(
            len(_each_once([r[c[n] : c[n + 1]] for r, c in zip(runs, cuts, strict=True)]))
            for n in range(parts)
        )

    def runs(self) -> list[Digests]:
        """Sorted runs, without duplicates in each; those in the file are mapped, not read."""
        self._settle()
        runs: list[Digests] = []
        if self._file is not None:
            at = 0
            for length in self._runs:
                run = np.memmap(self._file, np.uint64, "r", offset=at * _BYTES, shape=(length,))
                runs.append(run)
                at += length
        return [*runs, self._seen] if len(self._seen) else runs

    def _settle(self) -> None:
        if not self._new:
            return
        self._seen = _each_once([self._seen, *self._new])
        self._new = []
        self._pending = 0
        if len(self._seen) > self._most:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = file = tempfile.TemporaryFile(prefix="palestra-unique-")  # noqa: SIM115  # lives as long as this
            weakref.finalize(self, file.close)
        self._seen.tofile(self._file)
        self._file.flush()
        self._runs.append(len(self._seen))
        self._seen = np.empty(0, np.uint64)

    def __getstate__(self) -> Digests:
        """What another process is given: only a part that was never too large has to travel."""
        if self._file is not None:
            raise TypeError("digests that were written to a file stay in their process")
        return self.held()

    def __setstate__(self, digests: Digests) -> None:
        """As it was given."""
        self.__init__()  # type: ignore[misc]
        self._seen = digests


def _each_once(runs: Sequence[Digests]) -> Digests:
    """All of them, sorted. (`np.unique` hashes, which takes ten times as long for what is random.)"""
    merged = np.sort(np.concatenate(runs))
    first = np.empty(len(merged), np.bool_)
    first[:1] = True
    np.not_equal(merged[1:], merged[:-1], out=first[1:])
    return merged[first]
