"""Count different values by 64-bit digests, in bounded memory.

A digest is Python's own hash, SipHash with a key of this process: processes cannot compare theirs.

Two different values have the same digest with probability 2^-64. Among a million values, the
probability of any collision is about 3 in 100 million.
"""

import tempfile
import weakref
from collections.abc import Iterable, Sequence
from typing import IO, Final

import numpy as np
import numpy.typing as npt

Digests = npt.NDArray[np.uint64]

MOST_HELD: Final = 1 << 17
"""The maximum number of digests per measure in memory (1 MiB). Further digests go to a file, in
sorted runs."""
_BYTES: Final = 8


def as_array(hashes: Iterable[int]) -> Digests:
    """Return Python's hashes of texts as digests, in the form that `Uniques.add` takes.

    The texts are bytes, because two `str` of different characters can have the same hash.
    """
    return np.fromiter(hashes, np.int64).view(np.uint64)


class Uniques:
    """A set of digests that supports only counting. Its temporary file has no name and is deleted
    when the process ends.
    """

    def __init__(self, *, most_held: int = MOST_HELD) -> None:
        self._most = most_held
        self._seen: Digests = np.empty(0, np.uint64)
        self._new: list[Digests] = []
        self._pending = 0
        self._file: IO[bytes] | None = None
        self._runs: list[int] = []
        """Lengths of the sorted runs in the file, one after the other."""

    def add(self, digests: Digests) -> None:
        """Add digests; duplicates are allowed."""
        self._new.append(digests)
        self._pending += len(digests)
        if self._pending >= max(self._most // 4, len(self._seen) // 2):
            self._settle()

    def merge(self, added: "Uniques") -> None:
        """Add all digests of `added`."""
        for run in added.runs():
            for start in range(0, len(run), self._most):
                self.add(run[start : start + self._most])

    def held(self) -> Digests:
        """Return the digests in memory, sorted and without duplicates."""
        self._settle()
        return self._seen

    def __len__(self) -> int:
        """Return the number of different digests."""
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
        """Return sorted runs, each without duplicates. Runs in the file are memory-mapped, not
        read.
        """
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
        """Return the state for pickling: the digests in memory. Raises TypeError: some digests are
        in a file.
        """
        if self._file is not None:
            raise TypeError("digests that were written to a file stay in their process")
        return self.held()

    def __setstate__(self, digests: Digests) -> None:
        """Restore a pickled set from its digests."""
        self.__init__()  # type: ignore[misc]
        self._seen = digests


def _each_once(runs: Sequence[Digests]) -> Digests:
    """Merge all runs: sorted, without duplicates. (`np.unique` hashes, which is ten times slower on
    random values.)
    """
    merged = np.sort(np.concatenate(runs))
    first = np.empty(len(merged), np.bool_)
    first[:1] = True
    np.not_equal(merged[1:], merged[:-1], out=first[1:])
    return merged[first]
